"""Functions in up to three forms, for any x86-64, for AVX2 and for AVX-512; loading chooses one."""

cdef extern from * nogil:
    """
    #if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
    #define SIMILIA_CLONES \\
      __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
    #else
    #define SIMILIA_CLONES
    #endif
    #define SIMILIA_VOID_CLONES SIMILIA_CLONES void
    """
    ctypedef void void_clones "SIMILIA_VOID_CLONES"

"""Functions in two forms, for any x86-64 and for processors with AVX2; loading chooses one."""

cdef extern from * nogil:
    """
    #if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
    #if __has_attribute(target_clones)
    #define SIMILIA_CLONES __attribute__((target_clones("default", "arch=x86-64-v3")))
    #endif
    #endif
    #ifndef SIMILIA_CLONES
    #define SIMILIA_CLONES
    #endif
    #define SIMILIA_VOID_CLONES SIMILIA_CLONES void
    """
    ctypedef void void_clones "SIMILIA_VOID_CLONES"

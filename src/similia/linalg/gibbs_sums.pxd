from similia.linalg.eigen_update cimport Work


cdef void set_gibbs_line(
    const double[::1] values, const double[::1] z, double rho, Work work, double* line
) noexcept nogil

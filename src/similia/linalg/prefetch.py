"""Asking for memory before it is needed, in compiled code that visits rows in random order."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from similia.linalg.compiled import compiled

#: bytes that the processor fetches at a time
LINE = 64


@intrinsic
def _prefetch(typing_context, address):
    def generated(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        # to be read, soon and more than once, as data
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.intp), generated


@compiled
def prefetch_row(A, i):
    """Have row i of a C-ordered matrix fetched into the cache, without waiting for it."""
    start = A.ctypes.data + i * A.strides[0]
    for offset in range(0, A.shape[1] * A.itemsize, LINE):
        _prefetch(start + offset)  # type: ignore[call-arg]

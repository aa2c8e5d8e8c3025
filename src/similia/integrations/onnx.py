"""ONNX: the query side of a learnt similarity as a graph of one product.

Vectors of the base go in, vectors to search with come out. Whatever runs ONNX runs it, in any
language, without similia.
"""

import os

import numpy as np

from similia.contract import Array, Searchable
from similia.exceptions import MissingExtraError
from similia.integrations.in_use import query_map
from similia.safety.whole import replacing

try:
    from onnx import checker, helper, load, numpy_helper
except ImportError as error:
    raise MissingExtraError("similia.integrations.onnx", "onnx", "onnx") from error

#: versions of the operators and of the format, old enough for runtimes in use
ONNX_OPSET, ONNX_FORMAT = 17, 9
INPUT, OUTPUT, QUERY_WEIGHT = "vectors", "query_vectors", "query_matrix"


def export_queries(learner: Searchable, path: str | os.PathLike[str]) -> None:
    """Write the map of queries as an ONNX model, in place of anything at `path`.

    The input ``vectors`` and the output ``query_vectors`` have shapes (n, d) and (n, k), in the
    precision of the learner. Search with the output by inner product or, if the learner's
    `geometry` is "l2", by Euclidean distance among its `item_vectors`.

    Parameters
    ----------
    learner : fitted learner
        Whose queries are mapped by one matrix: bilinear similarities, Mahalanobis distances, and
        `Blend` of vectors alone, of which what is remembered of single queries is left out.
    path : path
        File to write, usually ``*.onnx``.
    """
    W = np.ascontiguousarray(query_map("export_queries", learner))
    element = helper.np_dtype_to_tensor_dtype(W.dtype)
    graph = helper.make_graph(
        [helper.make_node("MatMul", [INPUT, QUERY_WEIGHT], [OUTPUT])],
        "similia",
        [helper.make_tensor_value_info(INPUT, element, ["n", W.shape[0]])],
        [helper.make_tensor_value_info(OUTPUT, element, ["n", W.shape[1]])],
        [numpy_helper.from_array(W, QUERY_WEIGHT)],
    )
    model = helper.make_model(
        graph,
        producer_name="similia",
        opset_imports=[helper.make_opsetid("", ONNX_OPSET)],
        ir_version=ONNX_FORMAT,
    )
    checker.check_model(model, full_check=True)
    with replacing(os.fspath(path)) as temporary:
        temporary.write_bytes(model.SerializeToString())


def query_matrix_of(path: str | os.PathLike[str]) -> Array:
    """W of an exported model, to continue from: ``OASIS(prior=W, prior_scale=1.0)``."""
    for tensor in load(os.fspath(path)).graph.initializer:
        if tensor.name == QUERY_WEIGHT:
            return np.array(numpy_helper.to_array(tensor))
    raise ValueError(f"query_matrix_of: path must be a model of export_queries, got {path}.")

"""Gradients of matrices and biases on the CPU: sums over all times of inputs times gradients."""

import weakref
from collections.abc import Mapping

import numpy as np
import torch

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cpu_arrays import CpuArrays
from rnnlab.engine.cpu_program import Array
from rnnlab.engine.native.products import JOB
from rnnlab.engine.native.runtime import Runtime, address, default_threads, matrix_gradients
from rnnlab.engine.nodes import NodeCode, Product, runs
from rnnlab.graph.elements import NodeKey

_OUT, _SUMS = 7, 9  # places of a job that hold addresses of results


class ParameterGradients:
    """The products that give the gradients, written once for the arrays that they read.

    A parameter that is used several times has several results, which are added.
    """

    def __init__(
        self, arrays: CpuArrays, dgates: Mapping[NodeKey, Array], dprojected: Mapping[EdgeSpec, Array]
    ) -> None:
        self.arrays: CpuArrays = weakref.proxy(arrays)  # they hold this
        self.dgates, self.dprojected = dgates, dprojected
        self.results: list[str] = []  # the parameter of each result
        self._jobs: list[tuple[int, ...]] = []
        self._places: list[tuple[int, int, int]] = []  # job, field of it, number of the result whose address it takes
        self._copies: list[tuple[Array, Array]] = []  # where times lie far apart: what to copy, and where
        self._sums: list[tuple[int, Array]] = []  # results that are sums of rows, of what no product has read
        self._tokens: list[tuple[int, slice, Array, Array]] = []  # result, its columns, tokens, gradients
        self._unused: list[int] = []  # results that are zero: a short sequence may have no time for a node
        for code in arrays.program.codes.values():
            self._add_node(code)
        self.jobs = np.array(self._jobs, np.int64).reshape(-1, JOB)
        self.places = np.array(self._places, np.int64).reshape(-1, 3).T

    def compute(self, loop: Runtime) -> dict[str, Array]:
        """The gradients by name, in arrays of their own."""
        arrays = self.arrays
        results = [np.empty(arrays.parameters[name].shape, arrays.dtype) for name in self.results]
        jobs = self.jobs.copy()  # they hold offsets
        job, field, number = self.places
        jobs[job, field] += np.array([address(result) for result in results], np.int64)[number]
        for source, target in self._copies:
            target[...] = source
        if len(jobs):
            matrix_gradients(jobs, loop, arrays.dtype, default_threads())
        for number, change in self._sums:
            results[number][...] = change.sum(axis=(1, 2))
        for number, columns, tokens, change in self._tokens:
            _add_tokens(tokens, change, results[number][:, :, columns])
        for number in self._unused:
            results[number][...] = 0
        found: dict[str, Array] = {}
        for name, result in zip(self.results, results, strict=True):
            found[name] = found[name] + result if name in found else result
        return found

    def _result(self, name: str) -> int:
        self.results.append(name)
        return len(self.results) - 1

    def _add_node(self, code: NodeCode) -> None:
        arrays, dgates = self.arrays, self.dgates[code.key]
        bias: int | None = self._result(code.bias)
        for product in code.products:
            result = self._result(product.name)
            first = [(*run, arrays.source(product)) for run in runs(product.pairs, code.units)]
            second = [(*run, arrays.resets[code.key]) for run in runs(product.reset_pairs, code.units)]
            for mine, theirs, source in first + second:
                is_whole = theirs == slice(0, dgates.shape[3])
                has_sums = self._add_matrix(source, dgates[..., theirs], result, mine, bias if is_whole else None)
                bias = None if has_sums else bias
            if product.has_projection:
                self._add_projection(code, product)
        if bias is not None:
            self._sums.append((bias, dgates))

    def _add_projection(self, code: NodeCode, product: Product) -> None:
        change = self.dprojected[product.edge]
        source = self.arrays.read(self.arrays.values, product.part, product.edge.delay, code.key)
        result, bias = self._result(product.projection), self._result(product.projection_bias)
        if not self._add_matrix(source, change, result, slice(0, code.units), bias):
            self._sums.append((bias, change))

    def _add_matrix(self, source: Array, change: Array, result: int, columns: slice, bias: int | None) -> bool:
        """Append the jobs for a matrix's gradient; returns whether they give the gradient of its bias too."""
        if change.shape[1] == 0:
            self._unused.append(result)
            return False
        if source.dtype != change.dtype:
            self._tokens.append((result, columns, source, change))
            return False
        left, right = self._in_line(source), self._in_line(change)
        members, depth, width = self.arrays.parameters[self.results[result]].shape
        size = left.itemsize
        for member in range(members):
            self._places.append((len(self._jobs), _OUT, result))
            if bias is not None:
                self._places.append((len(self._jobs), _SUMS, bias))
            self._jobs.append(
                (
                    *(address(left[member]), left.strides[2], address(right[member]), right.strides[2]),
                    *(left.shape[1] * left.shape[2], depth, right.shape[3]),
                    *((member * depth * width + columns.start) * size, width * size),
                    0 if bias is None else member * right.shape[3] * size,
                )
            )
        return bias is not None

    def _in_line(self, array: Array) -> Array:
        """[P, times, B, N] with all rows of a member at equal distances; a copy where they are not."""
        if array.shape[1] == 1 or array.strides[1] == array.shape[2] * array.strides[2]:
            return array
        copy = self.arrays.new(array.shape)
        self._copies.append((array, copy))
        return copy


def _add_tokens(tokens: Array, change: Array, gradient: Array) -> None:
    """The sum of the changes of each token, a row for each; -1 is no token."""
    gradient[...] = 0
    for member, taken in enumerate(tokens):
        known = torch.from_numpy(taken >= 0)
        rows = torch.from_numpy(change[member])[known]
        torch.from_numpy(gradient[member]).index_add_(0, torch.from_numpy(taken)[known], rows)

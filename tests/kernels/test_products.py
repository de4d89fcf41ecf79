"""Products of stored matrices, against numpy and scipy."""

import numpy as np
import pytest
import scipy.sparse

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 8), (9, 67), (13, 200)])
def test_rows(kernels, shape, dtype):
    rng = np.random.default_rng(0)
    matrix, vector = rng.uniform(size=shape).astype(dtype), rng.normal(size=shape[1])
    out, alone = np.empty(shape[0]), np.empty(1)
    kernels.matvec_rows(matrix, vector, out)
    np.testing.assert_allclose(out, matrix.astype(np.float64) @ vector, rtol=1e-12, atol=1e-14)
    for row in range(shape[0]):  # the same, whichever rows come with it
        kernels.matvec_rows(matrix[row : row + 1], vector, alone)
        assert alone[0] == out[row]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 4, 9, 66, 131])
def test_bands_of_a_symmetric_matrix(kernels, n, dtype):
    rng = np.random.default_rng(1)
    matrix, vector = rng.uniform(size=(n, n)).astype(dtype), rng.normal(size=n)
    matrix += matrix.T.copy()
    whole, part = np.zeros(n), np.full(n, np.nan)
    for first, last in ((0, n // 2), (n // 2, n)):
        kernels.symmetric_matvec_band(matrix, first, last, vector, part)
        assert (part[:first] == 0.0).all()
        whole += part
    np.testing.assert_allclose(whole, matrix.astype(np.float64) @ vector, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_sparse_rows(kernels, integer, dtype):
    rng = np.random.default_rng(2)
    matrix = scipy.sparse.random_array((40, 50), density=0.2, format="csr", rng=rng, dtype=dtype)
    matrix.data[:] = rng.uniform(size=matrix.nnz)
    vector, out = rng.normal(size=50), np.empty(30)
    starts, columns = matrix.indptr.astype(integer), matrix.indices.astype(integer)
    kernels.sparse_matvec_rows(starts[5:36], columns, matrix.data, vector, out)
    np.testing.assert_allclose(out, (matrix.astype(np.float64) @ vector)[5:35], rtol=1e-12, atol=1e-14)


def test_arguments_that_do_not_fit_are_refused(kernels):
    square, vector = np.ones((4, 4)), np.ones(4)
    with pytest.raises(ValueError, match=r"vector must have shape \(4\), got \(3\)"):
        kernels.matvec_rows(square, np.ones(3), vector)
    with pytest.raises(ValueError, match=r"matrix must have shape \(3, 3\), got \(3, 4\)"):
        kernels.symmetric_matvec_band(square[:3], 0, 3, vector, vector)
    with pytest.raises(ValueError, match="last must lie within 2 and 4, got 5"):
        kernels.symmetric_matvec_band(square, 2, 5, vector, vector)
    places = np.array([0, 1, 2], np.int32)
    with pytest.raises(ValueError, match="starts must lie within 0 and 2, got 3 at place 2"):
        kernels.sparse_matvec_rows(np.array([0, 1, 3], np.int32), places[:2], vector[:2], vector, np.ones(2))
    with pytest.raises(ValueError, match=r"data must have shape \(3\), got \(4\)"):
        kernels.sparse_matvec_rows(np.array([0, 1, 3], np.int32), places, vector, vector, np.ones(2))

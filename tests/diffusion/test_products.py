import numpy as np
import pytest
from scipy.sparse import csr_array

from ldmaps.diffusion import spectrum

DTYPES = (np.float64, np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (600, 31)])
def test_multiply_accumulates_in_float64(dtype, shape):
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal(shape).astype(dtype)
    vector = rng.standard_normal(shape[1])
    product = spectrum.multiply(csr_array(matrix), vector, 2)
    assert product.dtype == np.float64
    room = 1e-14 * np.abs(matrix).astype(np.float64) @ np.abs(vector)
    assert (np.abs(product - matrix.astype(np.float64) @ vector) <= room).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("least", [1 << 20, 40, 900])
@pytest.mark.parametrize("n", [1, 3, 4, 7, 64, 101, 333])
def test_symmetric_product_reads_the_upper_half_alone(dtype, least, n, monkeypatch):
    monkeypatch.setattr(spectrum, "MIN_PRODUCT", least)
    rng = np.random.default_rng(2)
    whole = rng.standard_normal((n, n)).astype(dtype)
    whole += whole.T
    vector = rng.standard_normal(n)
    matrix = whole.copy()
    matrix[np.tril_indices(n, -4)] = np.nan  # nearer to the diagonal it is read four by four
    product = spectrum.symmetric_product(matrix, vector)
    assert product.dtype == np.float64
    room = 1e-14 * np.abs(whole).astype(np.float64) @ np.abs(vector)
    assert (np.abs(product - whole.astype(np.float64) @ vector) <= room).all()
    for threads in (2, 3):
        np.testing.assert_array_equal(spectrum.symmetric_product(matrix, vector, threads), product)

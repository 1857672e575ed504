"""The engines that tests run on, and why some are skipped."""

import pytest

try:
    import torch
except ImportError:
    torch = None

without_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed: pip install 'mahala[gpu]'")
without_gpu = pytest.mark.skipif(torch is None or not torch.cuda.is_available(), reason="PyTorch finds no GPU")
ENGINES = [
    pytest.param("cpu", id="cores"),
    pytest.param("torch-cpu", marks=without_torch),
    pytest.param("cuda", marks=without_gpu),
]

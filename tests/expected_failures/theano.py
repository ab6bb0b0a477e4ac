from __future__ import annotations

from expected_failures._lineage import GRADIENT_OF_EIGH, GRADIENTS_OF_LOOPS

EXPECTED = (*GRADIENTS_OF_LOOPS, GRADIENT_OF_EIGH)

from __future__ import annotations

from expected_failures._lineage import GRADIENTS_OF_LOOPS

EXPECTED = (*GRADIENTS_OF_LOOPS,)

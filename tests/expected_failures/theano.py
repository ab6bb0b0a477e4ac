from __future__ import annotations

from expected_failures._lineage import ALGEBRA, GRADIENTS_OF_LOOPS

EXPECTED = (ALGEBRA, *GRADIENTS_OF_LOOPS)

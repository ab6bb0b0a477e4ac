from __future__ import annotations

from expected_failures._lineage import ALGEBRA

EXPECTED = (ALGEBRA,)

"""One study on disk (`store`), the file its events are in (`journal`), what they amount to (`ledger`)."""

from cutlass_tuner.study.ledger import Best, Ledger, StudySummary, log_ratio
from cutlass_tuner.study.store import Study, default_name, find

__all__ = ["Best", "Ledger", "Study", "StudySummary", "default_name", "find", "log_ratio"]

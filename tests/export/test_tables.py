from __future__ import annotations

import csv
import io

import pytest
from pydantic import ValidationError

from cutlass_tuner.export.tables import (
    BaselineFigures,
    ContestRow,
    ExportRow,
    ExportTable,
    to_csv,
    to_json,
)
from export.samples import PROVENANCE, problem

ROWS = (
    ExportRow(
        problem=problem(64, 128, 256, count=3).model_copy(update={"name": 'q,"k"'}),
        kernel="tma_ws:stages=4",
        launch="swizzle=2",
        symbol="cutlass_tuner_tma_ws_0123456789ab",
        time_us=3.1415926535,
        torch_us=4.0,
        run_command="cutlass-tuner run --op hgemm",
        speedup_torch_low=1.25,
        outcome_torch="faster",
        roofline=0.5,
        speedup_torch=4.0 / 3.1415926535,
    ),
    ExportRow(problem=problem(8, 8, 8, layout="tt"), why="no kernel was right"),
)
TABLE = ExportTable(study="s", date="2025-11-30", l2="cold", environment=PROVENANCE.environment, rows=ROWS)


def test_json_reads_back_as_the_same_table() -> None:
    text = to_json(TABLE)
    assert ExportTable.model_validate_json(text) == TABLE
    assert text == to_json(TABLE)


def test_json_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError):
        ExportTable.model_validate_json(to_json(TABLE).replace('"study"', '"studio"'))


def test_csv_has_a_line_a_problem_with_exact_numbers_and_empty_fields_for_what_is_absent() -> None:
    first, second = csv.DictReader(io.StringIO(to_csv(ROWS)))
    assert (first["m"], first["n"], first["k"], first["batch"]) == ("64", "128", "256", "1")
    assert (first["layout"], first["count"], first["name"]) == ("tn", "3", 'q,"k"')
    assert float(first["time_us"]) == ROWS[0].time_us
    assert (first["run_command"], first["outcome_torch"]) == ("cutlass-tuner run --op hgemm", "faster")
    assert (first["speedup_torch_low"], first["speedup_torch_high"], first["roofline"]) == ("1.25", "", "0.5")
    assert first["cublaslt_tuned_us"] == first["speedup_cublaslt"] == ""
    assert first["outcome_cublaslt"] == "missing"
    assert second["time_us"] == "" and second["why"] == "no kernel was right"


def test_csv_of_problems_with_unlike_dims_has_all_columns() -> None:
    plain = problem(8, 8, 8).model_copy(update={"dims": {"m": 8, "seq": 4}})
    line = next(csv.DictReader(io.StringIO(to_csv([ExportRow(problem=plain), *ROWS]))))
    assert (line["m"], line["seq"], line["n"]) == ("8", "4", "")


CONTESTS = (
    ContestRow(
        problem=problem(64, 128, 256),
        kernel="attention:stages=2",
        time_us=3.0,
        best_baseline="cudnn",
        baselines={
            "torch": BaselineFigures(us=4.5, ratio=1.5, low=1.4, high=1.6, outcome="faster"),
            "cudnn": BaselineFigures(us=3.3, ratio=1.1, low=1.0, high=1.2, outcome="tie"),
            "flash-attn-3": BaselineFigures(why="not installed"),
        },
    ),
    ContestRow(problem=problem(8, 8, 8), baselines={"torch": BaselineFigures(us=2.0)}, why="none was right"),
)


def test_any_ops_table_reads_back_with_its_baselines_by_name() -> None:
    table = TABLE.model_copy(update={"rows": CONTESTS})
    assert ExportTable.model_validate_json(to_json(table)) == table
    assert "cublaslt" not in to_json(table)


def test_csv_of_any_op_has_a_time_a_ratio_and_an_outcome_a_baseline() -> None:
    first, second = csv.DictReader(io.StringIO(to_csv(CONTESTS, "recorded")))
    assert (first["torch_us"], first["torch_ratio"], first["torch_outcome"]) == ("4.5", "1.5", "faster")
    assert (first["flash_attn_3_us"], first["flash_attn_3_outcome"]) == ("", "missing")
    assert (second["torch_us"], second["cudnn_us"], second["cudnn_outcome"]) == ("2.0", "", "")
    assert [first["best_baseline"], second["why"], second["simulated"]] == [
        "cudnn",
        "none was right",
        "recorded",
    ]
    assert "baselines" not in first

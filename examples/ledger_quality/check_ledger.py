"""Rules of one team for the ledger that `--longctx-ledger` writes, in pandera.

They are about the mix of the data, which no contract knows: `python check_ledger.py ledger.parquet`.
"""

from __future__ import annotations

import sys

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

MOST_OF_ONE_SLICE = 0.6  # of all supervised tokens
LEAST_ANSWER = 3  # tokens


def no_slice_dominates(ledger: pd.DataFrame) -> pd.Series:
    """Per sample, whether its slice has at most its share of the supervised tokens."""
    share = ledger.groupby("slice")["supervised"].sum() / ledger["supervised"].sum()
    return ledger["slice"].map(share) <= MOST_OF_ONE_SLICE


LEDGER = pa.DataFrameSchema(
    {
        "id": pa.Column(str, unique=True),
        "slice": pa.Column(str),
        "answer": pa.Column("int32", pa.Check.ge(LEAST_ANSWER)),
        "total": pa.Column("int32"),
        "decision": pa.Column(str, pa.Check.isin(["fit", "truncate"])),
    },
    checks=[
        pa.Check(
            lambda ledger: ledger["template"] + ledger["prompt"] + ledger["supervised"] == ledger["total"],
            name="parts_are_the_whole",
        ),
        pa.Check(no_slice_dominates, name="no_slice_dominates"),
    ],
)


def main(path: str) -> int:
    """Check a ledger; print what is wrong by rule, with the first few samples."""
    ledger = pd.read_parquet(path)
    try:
        LEDGER.validate(ledger, lazy=True)
    except SchemaErrors as errors:
        for rule, cases in errors.failure_cases.groupby("check"):
            rows = cases["index"].dropna().astype(int).unique()
            print(f"{rule}: {len(rows):,} × broken, first by {', '.join(ledger['id'].iloc[rows[:3]])}")
        return 1
    print(f"{len(ledger):,} samples keep every rule")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

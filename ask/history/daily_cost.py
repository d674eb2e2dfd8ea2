"""The limit on what all runs of a day cost: those in the history, rows of `ask map`, and what was not saved."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from ask.app import AppContext
from ask.client.cost import Cost
from ask.client.run_costs import make_history_pricing
from ask.errors import FileError, LimitReachedError
from ask.history.statistics import stream_costs
from ask.history.store import Store

PERIOD_SECONDS = 900
"""Costs are added up by periods of this length: midnight is the start of one in every time zone."""
ADD_COST = "INSERT INTO {table} VALUES (?, ?) ON CONFLICT (period) DO UPDATE SET dollars = dollars + excluded.dollars"
SUM_COSTS = "SELECT total(dollars) FROM {table} WHERE period >= ?"
ROW_COSTS = "SELECT total(cost) FROM results WHERE time >= ? * 900"
"""For a ledger of an earlier version, which has no sums."""


def get_period(unix_time: float) -> int:
    """Return the number of the period that a time is in."""
    return int(unix_time // PERIOD_SECONDS)


def _find_midnight(unix_time: float, days: int = 0) -> float:
    """Return the start of the local day that a time is in, or of one some days later.

    Days with a change of daylight saving time have 23 or 25 hours. Where the change skips midnight, the day begins with
    the time after it.
    """
    day = datetime.fromtimestamp(unix_time).date() + timedelta(days=days)
    return datetime(day.year, day.month, day.day).timestamp()


class DailyCostLimit:
    """The limit on the costs of a local day.

    Args:
        app: the user's installation.
        dollars: the limit in US dollars, which is an attribute, too.
        sum_ledger: returns the costs in the user's ledger from a period on; None to read its file.
        find_own_run: returns the number of the run that is in progress, whose costs are not counted; 0 for none.
    """

    def __init__(
        self,
        app: AppContext,
        dollars: float,
        *,
        sum_ledger: Callable[[int], float] | None = None,
        find_own_run: Callable[[], int] = lambda: 0,
    ) -> None:
        self._app = app
        self.dollars = dollars
        self._sum_ledger = sum_ledger or partial(_read_ledger_costs, app.app_dirs.ledger_file)
        self._find_own_run = find_own_run
        self._calculate_cost = make_history_pricing(app, at_current_prices=True)

    def compute_rest(self) -> float:
        """Return how many US dollars are left for today; a negative number if more than the limit was spent.

        Raises:
            FileError: the history or the ledger cannot be read.
        """
        return self.dollars - (self._compute_cost().dollars or 0.0)

    def find_excess(self, own_cost: float = 0.0) -> LimitReachedError | None:
        """Return the error that the limit is reached, if it is.

        Args:
            own_cost: what the run that is in progress has cost.

        Raises:
            FileError: the history or the ledger cannot be read.
        """
        cost = self._compute_cost()
        spent = (cost.dollars or 0.0) + own_cost
        return self.make_error(spent) if spent >= self.dollars else None

    def make_error(self, spent: float) -> LimitReachedError:
        """Return the error that the limit is reached."""
        reset = time.strftime("%Y-%m-%d %H:%M", time.localtime(_find_midnight(time.time(), days=1)))
        return LimitReachedError(
            f"reached the daily cost limit of ${self.dollars:g} (${spent:.4f} spent today)",
            f"it starts over at {reset}; raise it with --max-cost-per-day",
        )

    def add_unsaved_cost(self, dollars: float) -> None:
        """Save a cost that is neither in the history nor in the ledger.

        Raises:
            FileError: it cannot be saved.
        """
        if dollars:
            file, quiet = self._app.app_dirs.history_file, self._app.console.is_quiet
            with Store(file, quiet=quiet) as store, store.write_transaction() as connection:
                connection.execute(ADD_COST.format(table="unsaved_costs"), (get_period(time.time()), dollars))

    def _compute_cost(self) -> Cost:
        """Return the costs of today, as far as they are known."""
        midnight = _find_midnight(time.time())
        period = get_period(midnight)
        with Store(self._app.app_dirs.history_file, create=False, quiet=self._app.console.is_quiet) as store:
            costs = stream_costs(store, midnight, lambda: self._calculate_cost, excluded_run=self._find_own_run())
            total = sum((cost for _, _, cost in costs), start=Cost())
            [(unsaved,)] = store.fetch_rows(SUM_COSTS.format(table="unsaved_costs"), [period])
        return total + Cost(unsaved + self._sum_ledger(period))


def _read_ledger_costs(ledger: Path, period: int) -> float:
    """Return the costs in a ledger from a period on; 0 if there is no ledger.

    Raises:
        FileError: it cannot be read.
    """
    if not ledger.exists():
        return 0.0
    if not ledger.is_file():  # SQLite would wait for a program to open a named pipe
        raise FileError(f"cannot read what was spent today from {ledger} (not a regular file)", "move it away")
    try:
        with closing(sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", timeout=10, uri=True)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if not tables & {"costs", "results"}:
                return 0.0
            query = SUM_COSTS.format(table="costs") if "costs" in tables else ROW_COSTS
            return float(connection.execute(query, (period,)).fetchone()[0])
    except sqlite3.Error as error:
        raise FileError(f"cannot read what was spent today from {ledger} ({error})") from error

"""Judgements on their way into a log: checked against the items that they name."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from similia.service.catalogue.layout import Layout
from similia.service.catalogue.shared import Follower
from similia.service.errors import Invalid
from similia.service.log.log import Entry
from similia.service.log.records import Judgement, TenantSettings
from similia.service.tenants.catalogue import Catalogue
from similia.service.tenants.checks import check_judgement, judged_entry


class ItemsNotReady(Exception):
    """Whether an item is known cannot be said without waiting for the learner."""


class _ItemView(NamedTuple):
    """Items as a judgement is checked against them."""

    layout: Layout | None
    has: Callable[[str], bool]
    #: row of the log that changed them last
    seq: int


class Intake:
    """Makes entries of judgements. With a `follower`, the items are another tenant's."""

    def __init__(
        self,
        catalogue: Catalogue,
        settings: Callable[[], TenantSettings],
        follower: Follower | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._settings = settings
        self._follower = follower

    def entries(self, judgements: Sequence[Judgement], *, uploaded: bool = False) -> list[Entry]:
        """Entries of judgements; waits for items that were put just now, and follows those shared.

        Those that are `uploaded` come from an administrator. Raises Invalid with all that are
        wrong.
        """
        view = self._view()
        try:
            found = self._checked(view.layout, judgements, self._knowing(view), uploaded)
        except ItemsNotReady:
            self._catalogue.catch_up()
            view = self._view()
            found = self._checked(view.layout, judgements, view.has, uploaded)
        if self._follower is not None:
            self._follower.follow(view.seq)
        return found

    def at_once(
        self, judgements: Sequence[Judgement], *, uploaded: bool = False
    ) -> list[Entry] | None:
        """The same without waiting for anything; None if there is something to wait for."""
        view = self._view()
        if self._follower is not None and view.seq > self._follower.mark:
            return None
        try:
            return self._checked(view.layout, judgements, self._knowing(view), uploaded)
        except ItemsNotReady:
            return None

    def _checked(
        self,
        layout: Layout | None,
        judgements: Sequence[Judgement],
        known: Callable[[str], bool],
        uploaded: bool,
    ) -> list[Entry]:
        settings = self._settings()
        found: list[Entry] = []
        wrong: dict[int, str] = {}
        for place, judgement in enumerate(judgements):
            try:
                check_judgement(layout, judgement, known, uploaded=uploaded)
                found.append(judged_entry(judgement, settings, layout, uploaded=uploaded))
            except Invalid as error:
                wrong[place] = str(error)
        if wrong:
            raise Invalid(next(iter(wrong.values())), wrong)
        return found

    def _knowing(self, view: _ItemView) -> Callable[[str], bool]:
        def knows(id: str) -> bool:
            if view.has(id):
                return True
            if self._catalogue.is_behind:
                raise ItemsNotReady
            return False

        return knows

    def _view(self) -> _ItemView:
        items = self._catalogue.items
        if items is None:
            return _ItemView(None, lambda _: False, 0)
        if self._follower is None:
            return _ItemView(items.layout, items.__contains__, 0)
        # Whatever is half done is left out: it would not be there as of the row that is followed.
        while (versions := items.as_of(items.changed)) is None:
            pass  # compacted in this very moment
        return _ItemView(items.layout, lambda id: versions.row(id) is not None, versions.seq)

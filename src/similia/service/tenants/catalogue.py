"""The items of a tenant, and what is computed from them alone, for all who rank them."""

import threading
from collections.abc import Sequence

from msgspec import structs

from similia.service.answers import Receipt
from similia.service.catalogue.approximate import Approximate
from similia.service.catalogue.items import Items
from similia.service.catalogue.layout import Layout
from similia.service.catalogue.texts import ItemTexts
from similia.service.engine.learner import WAIT_SECONDS, LiveLearner
from similia.service.errors import Invalid
from similia.service.log.log import Log
from similia.service.log.records import Configured, Delete, Item, TenantSettings, View
from similia.service.tenants.checks import check_id, check_settings, entry, item_entry


class Catalogue:
    """Items: put, taken away, looked up; and the indices to search them by words or vectors."""

    def __init__(self, log: Log, learner: LiveLearner) -> None:
        self.log = log
        self._learner = learner
        self._changing = threading.Lock()
        self.texts = ItemTexts()
        search = learner.settings.search
        self.approximate = None if search == "exact" else Approximate(search)

    def __len__(self) -> int:
        return 0 if self.items is None else len(self.items)

    @property
    def items(self) -> Items | None:
        """Items by now; None as long as there were none."""
        return self._learner.items

    @property
    def layout(self) -> Layout | None:
        """Where views are in rows; None as long as there were no items."""
        return None if self.items is None else self.items.layout

    @property
    def search(self) -> str:
        """How items are searched."""
        return self._learner.settings.search

    # -- changes -------------------------------------------------------------------------------

    def put(self, items: Sequence[Item]) -> Receipt:
        """Add items, or put them in place of those with the same ids: all of them or none."""
        if not items:
            raise Invalid("items: there must be at least one, got none.")
        with self._changing:
            entries, layout = [], self.layout
            if layout is None:
                settings = self._settings_of(items[0])
                layout = Layout(settings.views or [], settings.fields)
                entries.append(entry(Configured(settings=settings)))
            entries.append(item_entry(layout, items))
            seq = self.log.append(entries)[-1].seq
            if len(entries) > 1:
                self._learner.wait(seq, WAIT_SECONDS)
        return Receipt(items[0].id, seq)

    def delete(self, ids: Sequence[str]) -> Receipt:
        """Take items away; those that are not there are passed over."""
        if not ids:
            raise Invalid("items: there must be at least one id, got none.")
        for id in ids:
            check_id("item: id", id)
        seq = self.log.append([entry(Delete(items=list(ids)))])[0].seq
        return Receipt(ids[0], seq)

    def _settings_of(self, item: Item) -> TenantSettings:
        """TenantSettings with the views of a first item."""
        if not item.vectors:
            raise Invalid(f"item {item.id!r:.80}: vectors must be at least one view, got none.")
        views = [View(name, len(vector)) for name, vector in item.vectors.items()]
        settings = structs.replace(self._learner.settings, views=views)
        check_settings(settings)
        return settings

    # -- looking up ----------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether items may have been put that are not here yet."""
        return self._learner.seq < self.log.last

    def catch_up(self) -> None:
        """Wait for what was put by now."""
        self._learner.wait(self.log.last, WAIT_SECONDS)

    def has(self, id: str) -> bool:
        """Whether there is such an item, also if it was put just now."""
        if self.items is not None and id in self.items:
            return True
        if self.is_behind:
            self.catch_up()
        return self.items is not None and id in self.items

    def item(self, id: str) -> Item | None:
        """An item, with what was put by now."""
        self.catch_up()
        return None if self.items is None else self.items.get(id)

    def contents(self, ids: Sequence[str]) -> list[Item]:
        """Items as people see them, without vectors; unknown ones are passed over."""
        items = self.items
        found = [] if items is None else [items.get(id) for id in ids]
        return [structs.replace(item, vectors={}) for item in found if item is not None]

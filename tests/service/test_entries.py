"""Judgements that pass at a glance are those that pass all checks, with the same bytes."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from similia.service.catalogue.layout import Layout
from similia.service.http.bounds import Bounds
from similia.service.http.keys import LOCAL_OWNER
from similia.service.log.records import Query, Tie, Triplet, View
from similia.service.settings import Settings
from similia.service.tenants.checks import check_judgement, judged_entry, plain_entries

LAYOUT = Layout([View("vectors", 2)])
ITEMS = {"a", "b", "c"}
BOUNDS = Bounds(Settings(store="unused"))
NAMES = st.sampled_from([*ITEMS, "unknown", "", "x" * 300])
TEXTS = st.one_of(st.none(), NAMES, st.text(max_size=3), st.just("long " * 40))
GOOD = Triplet(id="1", query=Query(item="a"), better="b", worse="c")


def known(id):
    return id in ITEMS


def slowly(judgements):
    checked = BOUNDS.judgements(judgements, LOCAL_OWNER)
    for judgement in checked:
        check_judgement(LAYOUT, judgement, known)
    return [judged_entry(judgement, layout=LAYOUT) for judgement in checked]


@st.composite
def judgements(draw):
    """The good one, with some of its fields changed."""
    changes = {
        "id": TEXTS,
        "judge": TEXTS,
        "source": TEXTS,
        "left": TEXTS,
        "trusted": st.sampled_from([None, True, False]),
        "weight": st.sampled_from([1.0, 0.0, -1.0, 0.5, float("nan"), 1e9]),
        "milliseconds": st.sampled_from([None, 5]),
        "better": NAMES,
        "worse": NAMES,
        "query": st.builds(
            Query,
            id=TEXTS,
            text=TEXTS,
            item=st.one_of(st.none(), NAMES),
            vectors=st.sampled_from([None, {}, {"vectors": [1.0, 2.0]}, {"vectors": [1.0]}]),
        ),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(changes)), max_size=3))
    return structs.replace(GOOD, **{name: draw(changes[name]) for name in chosen})


@given(st.lists(judgements(), min_size=1, max_size=3))
def test_a_glance_never_lets_through_what_the_checks_would_not(given_):
    found = plain_entries(given_, known)
    if found is not None:
        assert found == slowly(given_)


def test_what_is_most_frequent_needs_no_more_than_a_glance():
    assert plain_entries([GOOD], known) == slowly([GOOD])
    others = Tie(id="2", query=Query(item="a"), items=("b", "c"))
    assert plain_entries([GOOD, others], known) is None

"""People teach it on a page, in a real browser."""

import importlib.util
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from similia.service.http.app import Service
from similia.service.log.records import Item, Query, Triplet
from similia.service.settings import Settings
from similia.service.tenants.files import KnownQueries
from tests.page.shop import GOODS, asked, goods
from tests.service.conftest import WIDTH, Running, some_items, until

PAGES = ["judge", "lists", "search", "model", "people"]
TEXTS = {"left": "1", "right": "2", "alike": "0", "none": "n", "skip": " "}


@pytest.fixture
def settings(tmp_path):
    store = str(tmp_path / "store")
    return {"store": store, "port": 0, "rate": 0.0, "wrong_rate": 0.0, "warm_up": "never"}


@pytest.fixture
def service(settings):
    """A service on a free port, with thirty items."""
    with Running(Service(Settings(**settings))) as running:
        running.tenant = running.service.tenants.get("default")
        running.tenant.put_items(some_items())
        yield running


@pytest.fixture
def shop(settings):
    """A service with the items of a shop, and queries that people ask there."""
    with Running(Service(Settings(**settings))) as running:
        running.tenant = running.service.tenants.get("default")
        running.tenant.put_items(goods())
        running.service.queries["default"] = KnownQueries(asked())
        yield running


def logged(tenant):
    """Judgements of a tenant, in order."""
    return [row.record for row in tenant.judgements(limit=1000)]


def question(page):
    """Left and right item on screen."""
    return [article.get_attribute("data-item") for article in page.query_selector_all("article")]


def answer(page, key):
    """Press a key; return the pair that it was about."""
    page.wait_for_selector("article")
    pair = question(page)
    page.keyboard.press(key)
    return pair


def all_stored(tenant, n):
    until(lambda: len(tenant.judgements(limit=1000)) >= n)


def test_a_hundred_answers_by_keyboard_arrive_in_order_and_are_learnt(service, visit):
    page, rng = visit(service.url), np.random.default_rng(0)
    expected = []
    for _ in range(100):
        key = "12"[rng.integers(2)]
        left, right = answer(page, key)
        expected.append((left, right) if key == "1" else (right, left))
    all_stored(service.tenant, 100)
    found = logged(service.tenant)
    assert [(record.better, record.worse) for record in found] == expected
    assert all(record.left in (record.better, record.worse) for record in found)
    seq = service.tenant.log.last
    until(lambda: service.tenant.status().learnt_seq >= seq)
    assert service.tenant.status().trust  # something was learnt


def test_every_answer_has_its_key(service, visit):
    page = visit(service.url)
    for key in TEXTS.values():
        answer(page, key)
    all_stored(service.tenant, len(TEXTS))
    kinds = [type(record).__struct_config__.tag for record in logged(service.tenant)]
    assert kinds == ["triplet", "triplet", "tie", "none", "skip"]


def test_undo_retracts_the_last_answer(service, visit):
    page = visit(service.url)
    answer(page, "1")
    answer(page, "2")
    page.keyboard.press("u")
    until(lambda: any(row.retracted for row in service.tenant.judgements()))
    first, second = service.tenant.judgements()
    assert (first.retracted, second.retracted) == (False, True)


def test_undo_shows_the_question_again(service, visit):
    page = visit(service.url)
    pair = answer(page, "1")
    page.wait_for_selector("text=1 answer so far")  # the next pair may be the same by chance
    page.keyboard.press("u")
    until(lambda: question(page) == pair)
    page.wait_for_selector("text=0 answers so far")
    answer(page, "2")
    all_stored(service.tenant, 2)
    assert [(row.retracted, row.record.better) for row in service.tenant.judgements()] == [
        (True, pair[0]),
        (False, pair[1]),
    ]


def test_a_reload_in_the_middle_loses_nothing(service, visit):
    page = visit(service.url)
    for key in "1212":
        answer(page, key)
    page.reload()
    for key in "12":
        answer(page, key)
    all_stored(service.tenant, 6)
    assert len(logged(service.tenant)) == 6


def test_answers_wait_for_a_server_that_comes_back(settings, visit):
    service = Service(Settings(**settings))
    with Running(service) as running:
        port = running.port
        service.tenants.get("default").put_items(some_items())
        page = visit(running.url)
        answer(page, "1")
        all_stored(service.tenants.get("default"), 1)
    answer(page, "2")
    page.wait_for_selector("text=1 answer waits for the server; nothing is lost.")
    for key in "12":
        answer(page, key)
    again = Service(Settings(**{**settings, "port": port}))
    with Running(again, port=port):
        tenant = again.tenants.get("default")
        all_stored(tenant, 4)
        answer(page, "1")
        all_stored(tenant, 5)
        assert len(logged(tenant)) == 5


def test_two_judges_at_once(service, visit):
    pages = []
    service.service.keys.add("default", ("admin",), name="ann")
    for name in ("bea", "cem"):
        _, key = service.service.keys.add("default", ("feedback",), judge=name)
        pages.append(visit(f"{service.url}/#key={key}&tenant=default"))
    for page in pages:
        page.wait_for_selector("article")
        assert [link.inner_text() for link in page.query_selector_all("nav a")] == ["Judge"]
        assert "key" not in page.url
    for _ in range(5):
        for page in pages:
            answer(page, "1")
    all_stored(service.tenant, 10)
    judges = [record.judge for record in logged(service.tenant)]
    assert sorted(judges) == ["bea"] * 5 + ["cem"] * 5


def test_an_owner_invites_a_judge_by_a_link(service, visit):
    _, key = service.service.keys.add("default", ("admin",), name="ann")
    page = visit(f"{service.url}/#key={key}&tenant=default")
    page.click("text=People")
    page.fill("input[required]", "dora")
    page.click("text=Make a link")
    link = page.wait_for_selector("code.link").inner_text()
    judge = visit(link)
    answer(judge, "2")
    all_stored(service.tenant, 1)
    assert logged(service.tenant)[0].judge == "dora"


@pytest.mark.parametrize("answered", ["accept", "dismiss"])
def test_an_invitation_replaces_a_key_only_if_its_owner_says_so(service, visit, answered):
    keys = service.service.keys
    _, own = keys.add("default", ("admin",), name="ann")
    _, other = keys.add("default", ("feedback",), judge="eve")
    page = visit(f"{service.url}/#key={own}&tenant=default")
    page.wait_for_selector("text=People")
    said = []

    def reply(dialog):
        said.append(dialog.message)
        getattr(dialog, answered)()

    page.on("dialog", reply)
    page.goto("about:blank")
    page.goto(f"{service.url}/#key={other}&tenant=elsewhere")
    page.wait_for_selector("header")
    kept = page.evaluate("[localStorage['similia.key'], localStorage['similia.tenant']]")
    assert kept == ([other, "elsewhere"] if answered == "accept" else [own, "default"])
    assert len(said) == 1
    assert "elsewhere" in said[0]
    assert other not in page.url


def places(page):
    items = page.query_selector_all("ol[aria-labelledby=after] > li")
    return [item.get_attribute("data-item") for item in items]


def test_the_search_changes_after_a_judgement(shop, visit, picture):
    page = visit(f"{shop.url}/#/search")
    page.wait_for_selector("option", state="attached")
    page.click("button.main")
    page.wait_for_selector("ol[aria-labelledby=after] > li")
    before = places(page)
    third = page.query_selector_all("button[aria-label='This one should be higher']")[1]
    third.click()
    until(lambda: places(page) != before)
    after = places(page)
    assert after.index(before[2]) < after.index(before[1])
    page.wait_for_selector("text=▲ up 1")
    said = [("shoe-hike", "shoe-trail"), ("sock-wool", "shoe-boat"), ("shoe-hike", "boot-ridge")]
    query = asked()[0]
    shop.tenant.feedback([Triplet(query=query, better=a, worse=b) for a, b in said])
    until(lambda: shop.tenant.status().learnt_seq >= shop.tenant.log.last)
    page.click("button.main")
    page.wait_for_selector("text=▲ up 5")
    after = places(page)
    page.set_viewport_size({"width": 1366, "height": 850})
    rows = page.locator("ol[aria-labelledby=before] > li, ol[aria-labelledby=after] > li")
    boxes = [row.bounding_box() for row in rows.all()]
    tops = [round(box["y"]) for box in boxes]
    assert tops[:10] == tops[10:]  # row by row
    assert max(box["y"] + box["height"] for box in boxes) <= 850  # at a glance
    assert page.locator(".lines path.up").count() >= 1
    assert page.locator(".lines path.down").count() >= 1
    picture(page, "search")
    left, right, sixth = boxes[0], boxes[10], boxes[5]
    corner = {"x": left["x"] - 40, "y": left["y"] - 40}
    size = {
        "width": right["x"] + right["width"] + 8 - corner["x"],
        "height": sixth["y"] + sixth["height"] + 8 - corner["y"],
    }
    picture(page, "before-after", clip=corner | size)
    second = "ol[aria-labelledby=after] > li:nth-child(2)"
    page.click(f"{second} >> text=Why")
    page.wait_for_selector(f"{second} >> text=Someone decided this for the query")
    page.click("text=Judge what you see")
    until(lambda: listed(page) == after)


def test_words_find_items_to_search_with(shop, visit):
    page = visit(f"{shop.url}/#/search")
    page.click("text=Words")
    page.fill('input[aria-label="Words"]', "sleeping in summer")
    page.click("button.main")
    page.wait_for_selector("ol[aria-labelledby=by-words] mark")
    assert page.locator("ol[aria-labelledby=by-words] > li").count() == 1
    page.click("text=Search with this one")
    page.wait_for_selector("ol[aria-labelledby=after] > li")


def listed(page):
    texts = page.locator("ol.graded > li .text").all_inner_texts()
    ids = {text: id for id, (text, _) in GOODS.items()}
    return [ids[text.strip()] for text in texts]


def test_a_graded_list_is_learnt(shop, visit, picture):
    page = visit(f"{shop.url}/#/lists")
    page.wait_for_selector("option", state="attached")
    page.click("button.main")
    page.wait_for_selector("ol.graded > li")
    page.click("ol.graded > li:nth-child(3) >> text=Perfect")
    page.click("ol.graded > li:nth-child(1) >> text=Bad")
    picture(page, "lists")
    page.click("text=Save these grades")
    page.wait_for_selector("text=Saved. The list shows what changed.")
    record = logged(shop.tenant)[-1]
    assert sorted(record.grades.values()) == [0.0, 3.0]


def test_a_list_is_put_in_order_by_the_mouse_and_completed(shop, visit):
    page = visit(f"{shop.url}/#/lists")
    page.wait_for_selector("option", state="attached")
    page.click("button.main")
    page.wait_for_selector("ol.graded > li")
    before = listed(page)
    place = "ol.graded > li:nth-child({})"
    page.drag_and_drop(place.format(3), place.format(1))
    order = [before[2], *before[:2], *before[3:]]
    until(lambda: listed(page) == order)
    page.fill('input[placeholder="Its id"]', "no such thing")
    page.click("text=Add it at the top")
    page.wait_for_selector("text=There is no item no such thing.")
    missing = next(id for id in GOODS if id not in before)
    page.fill('input[placeholder="Its id"]', missing)
    page.click("text=Add it at the top")
    until(lambda: listed(page) == [missing, *order])
    page.click("text=Save this order")
    page.wait_for_selector("text=Saved. The list shows what changed.")
    grades = logged(shop.tenant)[-1].grades
    assert sorted(grades, key=grades.get, reverse=True) == [missing, *order]


def test_an_owners_answers_check_a_judge(shop, visit):
    _, key = shop.service.keys.add("default", ("admin",), name="ann")
    owner = visit(f"{shop.url}/#key={key}&tenant=default")
    owner.click("text=Use my answers as check questions for others")
    owner.click("h1")
    answer(owner, "1")
    all_stored(shop.tenant, 1)
    gold = logged(shop.tenant)[0]
    assert gold.source == "gold"
    _, key = shop.service.keys.add("default", ("feedback",), judge="bea")
    checked = {"query": gold.query, "judge": "bea", "source": "check", "weight": 0.0}
    shop.tenant.feedback([Triplet(better=gold.better, worse=gold.worse, **checked)])
    judge = visit(f"{shop.url}/#key={key}&tenant=default")
    judge.wait_for_selector("text=1 of 1 check questions right")
    assert judge.query_selector("input[type=checkbox]") is None
    owner.goto(f"{shop.url}/#/model")
    owner.wait_for_selector("text=Nothing shows yet that it is better")
    assert owner.locator("text=Promote what was learnt").is_disabled()
    owner.wait_for_selector("text=one and the same answer to all 1 questions")
    shop.tenant.feedback([Triplet(better=gold.worse, worse=gold.better, **checked)])
    other = next(query for query in asked() if query.id != gold.query.id)
    for judge in ("bea", "cem"):
        said = {"query": other, "judge": judge}
        shop.tenant.feedback([Triplet(better="boot-snow", worse="shoe-road", **said)])
    owner.reload()
    owner.wait_for_selector("text=over 2 questions that several judges answered")


def test_pictures_fields_and_long_texts_are_shown(shop, visit):
    picture = "data:image/gif;base64,R0lGODlhAQABAIAAAP8AAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="
    long = "waterproof " * 100
    shop.tenant.put_items([Item(id="tent-two", vectors=goods()[0].vectors, image=picture)])
    item = Item(id="boot-ridge", vectors=goods()[0].vectors, text=long, fields={"price": 1.5})
    shop.tenant.put_items([item])
    page = visit(f"{shop.url}/#/search")
    page.click("text=An item's id")
    page.fill('input[aria-label="An item\'s id"]', "boot-city")
    page.click("button.main")
    place = "ol[aria-labelledby=before] > li"
    page.wait_for_selector(place)
    page.click("text=An item's id")
    page.fill('input[aria-label="An item\'s id"]', "tent-two")
    page.click("button.main")
    shown = page.wait_for_selector(f"{place} >> [aria-label='Show all']")
    text = page.locator(f"{place} .text", has_text="waterproof waterproof")
    assert len(text.inner_text()) < 700
    shown.click()
    until(lambda: len(text.inner_text()) > 1000)
    page.wait_for_selector(f"{place} dd >> text=1.5")
    page.fill('input[aria-label="An item\'s id"]', "boot-ridge")
    page.click("button.main")
    image = page.wait_for_selector(f"{place} img[alt='Picture of tent-two']")
    until(lambda: image.evaluate("image => image.naturalWidth") == 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_fits_on_a_phone(shop, visit, picture, scheme):
    page = visit(shop.url, color_scheme=scheme, viewport={"width": 390, "height": 844})
    for name in PAGES:
        page.goto(f"{shop.url}/#/{name}")
        page.wait_for_selector("article" if name == "judge" else "section")
        if name in ("lists", "search"):
            page.wait_for_selector("option", state="attached")
            page.click("button.main")
            page.wait_for_selector("ol > li >> visible=true")
        if name == "search":
            after, before = (page.locator(f"ol[aria-labelledby={x}]") for x in ("after", "before"))
            assert (after.is_visible(), before.is_visible()) == (True, False)
            assert page.evaluate("document.documentElement.scrollHeight") < 2000
            if scheme == "light":
                picture(page, "phone-search")
            page.click(".tabs >> text=Before")
            assert (after.is_visible(), before.is_visible()) == (False, True)
        assert page.evaluate("document.querySelector('header').offsetHeight") < 70
        if scheme == "dark" and name == "judge":
            picture(page, "phone")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


#: a taste that the base knows little of: what counts for it, and what counts against it
TASTE = np.array([3.0, 3.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0])


def opinions(n_queries, n_each):
    """Random questions about random queries, answered by that taste."""
    rng = np.random.default_rng(1)
    rows = np.stack([item.vectors["vectors"] for item in some_items()])
    judged = []
    for query, vector in enumerate(rng.normal(size=(n_queries, WIDTH))):
        wanted = rows @ (TASTE * vector)
        asked = Query(id=f"q{query}", vectors={"vectors": vector.tolist()})
        for _ in range(n_each):
            pair = rng.choice(len(rows), 2, replace=False)
            worse, better = (f"i{item}" for item in pair[np.argsort(wanted[pair])])
            judged.append(Triplet(query=asked, better=better, worse=worse, source="random"))
    return judged


def test_promotion_and_rollback(service, visit, picture):
    judged, learner = opinions(400, 10), service.tenant.learner
    for start, end in pairwise((0, 250, 500, 1000, 2000, 3000, 4000)):
        last = service.tenant.feedback(judged[start:end])[-1].seq
        until(lambda last=last: service.tenant.status().learnt_seq >= last)
        with learner._folding:
            learner.snapshots.write(learner._fold)
    page = visit(f"{service.url}/#/model")
    page.wait_for_selector("svg")
    assert page.locator("svg[aria-labelledby^=learning] circle.series-0").count() >= 4
    picture(page, "model")
    page.click("text=Promote what was learnt")
    page.wait_for_selector("text=Go back to the base")
    assert service.tenant.status().generation == 1
    page.click("text=Go back to the base")
    page.wait_for_selector("text=Go back to generation 1")
    assert service.tenant.status().generation == 0


def axe():
    folder = Path(importlib.util.find_spec("axe_core_python").origin).parent
    return (folder / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_barrier(shop, visit, picture, scheme):
    pytest.importorskip("axe_core_python")
    page = visit(shop.url, color_scheme=scheme, bypass_csp=True)
    for name in PAGES:
        page.goto(f"{shop.url}/#/{name}")
        page.wait_for_selector("h1")
        page.wait_for_selector("article" if name == "judge" else "section")
        if name == "judge" and scheme == "light":
            while not page.query_selector("article mark"):
                answer(page, " ")
            picture(page, "judge")
        if name == "search":
            page.wait_for_selector("option", state="attached")
            page.click("button.main")
            page.wait_for_selector("ol[aria-labelledby=after] > li")
        page.evaluate(axe())
        found = page.evaluate("axe.run()")["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []


HOSTILE = {
    "script": "<script>document.title='broken'</script><img src=x onerror=document.title='broken'>",
    "direction": "safe \u202egnirts\u202c \u2067x",
    "large": "word " * 6_000,
    "control": "a\x1b[31mb",
    "emoji": "👩‍👩‍👧‍👦 é ﷽",
}


def test_hostile_texts_are_shown_as_texts(service, visit):
    rows = np.random.default_rng(3).normal(size=(len(HOSTILE), WIDTH))
    for (name, text), row in zip(HOSTILE.items(), rows, strict=True):
        item = Item(id=f"<b>{name}", vectors={"vectors": row.tolist()}, text=text)
        service.tenant.put_items([item])
    page = visit(f"{service.url}/#/search")
    page.click("text=An item's id")
    page.fill('input[aria-label="An item\'s id"]', "i0")
    page.click("button.main")
    page.wait_for_selector("ol[aria-labelledby=after] > li")
    page.goto(f"{service.url}/#/judge")
    for _ in range(30):
        answer(page, "1")
    assert page.title() == "similia"
    assert page.query_selector("article b, article script, article img") is None
    assert "\u202e" not in page.inner_text("main")


def test_the_next_question_is_there_at_once(service, visit):
    page = visit(service.url)
    for i in range(30):
        answer(page, "12"[i % 2])
    until(lambda: page.evaluate("() => performance.getEntriesByType('measure').length") >= 29)

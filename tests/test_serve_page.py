"""The page of a served zoo in a real browser."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace as changed

import zoolearn
from archives import files, zipped
from servers import Client, png, serving
from tabs import watched_tab
from toys import pictures
from zoolearn import cli
from zoolearn.features.named import LIBRARIES
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.inputs import Columns, open_source
from zoos import HAZY, TASKS, small_zoo

pytestmark = pytest.mark.slow  # a browser is driven


@pytest.fixture
def folder(tmp_path) -> Path:
    return small_zoo(tmp_path / "birds & <b>bees", TASKS[:2]).path


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """A zoo that looks like one of forty members: the index alone tells that they are there."""
    zoo = small_zoo(tmp_path_factory.mktemp("many") / "zoo", TASKS[:1])
    (task,), (member,), (episode,) = zoo.tasks.values(), zoo.members, zoo.index.episodes
    names = [f"task {number}" for number in range(1, 41)]
    (measure,) = episode.measures.values()
    with zoo.folder.begin_change() as index:
        zoo.folder.commit(
            index.with_entries(
                tasks={
                    name: TaskEntry(name, (changed(task.arrivals[0], task=name, episode=place),))
                    for place, name in enumerate(names, 1)
                },
                members=tuple(
                    changed(member, number=place, episode=place, tasks=(name,), share={name: 1.0})
                    for place, name in enumerate(names, 1)
                ),
                episodes=tuple(
                    changed(episode, number=place, task=name, tasks=(name,), measures={name: measure})
                    for place, name in enumerate(names, 1)
                ),
            ).with_log("made", "2026-01-01T00:00:00+00:00")
        )
    return zoo.path


def opened(
    browser: Any, client: Client, path: str = "/", width: int = 1280, scheme: str = "light"
) -> tuple[Any, list[str]]:
    return watched_tab(browser, f"{client.url}{path}", (client.url, "blob:", "data:"), width=width, scheme=scheme)


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_shows_the_zoo_and_fits_the_screen(browser, folder, width, scheme) -> None:
    with serving(folder) as client:
        tab, complaints = opened(browser, client, "/", width, scheme)
        assert tab.locator("h1").text_content() == "birds & <b>bees"
        assert tab.evaluate("document.documentElement.dataset.theme") == scheme
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        rows = tab.locator(".who tbody tr")
        assert tab.locator(".tasks .meter").first.get_attribute("aria-label").startswith("100.0 %, ")
        assert [rows.nth(place).locator(".dot.own").count() for place in range(2)] == [1, 1]
        assert rows.nth(0).locator(".dot.replayed").count() == 1
        assert tab.locator("#growth svg").count() == 2
        assert "after episode 1" in tab.locator("#growth svg").first.get_attribute("aria-label")
        assert not tab.locator("#teach").is_visible()
        assert complaints == []
        tab.close()


def test_an_image_is_answered_with_each_members_vote(browser, folder) -> None:
    picture = {"name": "stripe.png", "mimeType": "image/png", "buffer": png(TASKS[0].test.x[0])}
    expected = zoolearn.open(folder).predict(TASKS[0].test.x[:1], "stripes")[0]
    noise = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    strange = noise[zoolearn.open(folder).predict(noise, "stripes", sure=0.97).index(None)]
    with serving(folder) as client:
        tab, complaints = opened(browser, client)
        tab.select_option("#task", "stripes")
        tab.set_input_files("#file", picture)
        assert tab.locator(".verdict").text_content() == expected
        assert tab.locator(".answer dl").nth(1).locator("dt").all_text_contents() == ["member 1", "member 2"]
        assert tab.locator("#preview").is_visible()
        drop = """([name, bytes]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], name, {type: "image/png"}));
            document.getElementById("drop").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
        }"""
        tab.evaluate("document.getElementById('answer').replaceChildren()")
        tab.evaluate(drop, ["dropped.png", list(picture["buffer"])])
        assert tab.locator(".verdict").text_content() == expected
        tab.select_option("#sure", "0.97")
        tab.evaluate(drop, ["noise.png", list(png(strange))])
        tab.wait_for_selector(".verdict:text-is('none of these')")
        assert complaints == []
        tab.evaluate(drop, ["broken.png", [1, 2, 3]])
        tab.wait_for_selector("#answer .wrong")
        assert "no image" in tab.locator("#answer").text_content()
        tab.close()


def test_the_task_can_be_found_out_by_the_zoo_itself(browser, folder) -> None:
    row = TASKS[0].test.x[:1]
    found = zoolearn.open(folder).recognise(row)[0]
    with serving(folder) as client:
        tab, complaints = opened(browser, client)
        tab.select_option("#task", "")
        tab.set_input_files("#file", {"name": "stripe.png", "mimeType": "image/png", "buffer": png(row[0])})
        tab.wait_for_selector(".verdict")
        assert tab.locator(".verdict").text_content() == (found.label or "not sure")
        assert set(tab.locator(".answer dt").all_text_contents()) == {task.name for task in TASKS[:2]}
        assert complaints == []
        tab.close()


def test_a_text_is_typed_and_answered_by_the_one_head_of_its_task(browser, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(
        LIBRARIES, "vowels:", lambda: lambda texts: [[1 + text.count(one) for one in "aeiou"] for text in texts]
    )
    (tmp_path / "words.csv").write_text(
        "body,kind\n" + "".join(f"{'a' * n},low\n{'i' * n},high\n" for n in range(1, 9))
    )
    zoo = zoolearn.new(tmp_path / "words", features="vowels:")
    columns = Columns(label="kind", text="body", embed=zoo.columns.embed)
    zoo.learn_from("vowels", open_source(tmp_path / "words.csv", columns), holdout=0.25)
    with serving(zoo.path) as client:
        tab, complaints = opened(browser, client, width=390)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        assert "texts, on features of vowels:" in tab.locator("#summary").text_content()
        tab.get_by_label("A text (body)").fill("iiii")
        tab.click("#numbers button")
        assert tab.locator(".verdict").text_content() == "high"
        assert "member" not in tab.locator("#answer").text_content()
        assert "trained" not in tab.locator("#picture").text_content()
        assert complaints == []
        tab.close()


def test_it_works_with_the_keyboard_alone(browser, folder) -> None:
    with serving(folder) as client:
        tab, _ = opened(browser, client)
        tab.wait_for_selector("#confusion")
        reached = []
        for _ in range(12):
            tab.keyboard.press("Tab")
            reached.append(tab.evaluate("document.activeElement.id || document.activeElement.textContent"))
        asking, showing = ["task", "sure", "file"], ["stripes", "dots", "confusion", "who"]
        assert reached[:10] == ["Skip to asking", "API", "theme", *asking, *showing]
        tab.locator(".tasks button", has_text="stripes").press("Enter")
        assert tab.input_value("#task") == "stripes"
        tab.locator("#theme").press("Enter")
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        tab.close()


def test_a_new_task_appears_by_itself_and_teaching_shows_how_it_comes_on(browser, folder) -> None:
    with serving(folder, learns=True) as client:
        tab, complaints = opened(browser, client)
        tab.fill("#name", "new kinds")
        archive = {"name": "kinds.zip", "mimeType": "application/zip", "buffer": zipped(files())}
        tab.set_input_files("#archive", archive)
        tab.click("#start")
        tab.locator("#training", has_text="Learned new kinds in").wait_for()
        tab.locator(".tasks button", has_text="new kinds").wait_for()
        assert tab.locator("#growth .chart").count() == 3
        third = {name: data for name, data in files(3).items() if "kind 2" in name}
        tab.fill("#name", "new kinds")
        tab.set_input_files("#archive", {**archive, "buffer": zipped(third)})
        tab.click("#start")
        tab.click("#meant")  # it asks whether a class is meant to be new
        tab.locator("#training", has_text="Learned new kinds in").wait_for()
        told = tab.locator("#training").text_content()
        assert "its earlier classes among themselves: no difference" in told
        assert "new class kind 2 " in told
        assert zoolearn.open(folder).tasks["new kinds"].classes == ("kind 0", "kind 1", "kind 2")
        zoolearn.open(folder).undo()
        zoolearn.open(folder).undo()
        tab.locator(".tasks button", has_text="new kinds").wait_for(state="detached")
        expected = ("409", "404")  # the question about the class; a task that went while the page asked about it
        assert [words for words in complaints if not any(code in words for code in expected)] == []
        tab.set_input_files("#archive", {**archive, "buffer": b"nothing"})
        tab.fill("#name", "more")
        tab.click("#start")
        tab.wait_for_selector("#training .wrong")
        assert "no archive" in tab.locator("#training").text_content()
        tab.close()


def test_a_private_zoo_asks_for_its_token_once(browser, folder) -> None:
    with serving(folder, token="open-sesame") as client:
        tab, _ = opened(browser, client)
        assert "stripes" not in tab.content()
        for token in ("wrong token", "open-sesame"):
            tab.fill("#token", token)
            tab.press("#token", "Enter")
            if token == "wrong token":
                tab.locator("#gate-note", has_text="That is not its token.").wait_for()
        tab.wait_for_selector("#main:not([hidden])")
        assert tab.locator(".who tbody tr").count() == 2
        tab.reload()
        tab.wait_for_selector("#main:not([hidden])")
        tab.click("text=API")
        tab.locator("h2", has_text="/tasks/{name}/predict").wait_for()
        assert "Authorization: Bearer" in tab.locator("pre").first.text_content()
        tab.close()


def test_the_documentation_shows_every_route(browser, folder) -> None:
    with serving(folder, learns=True) as client:
        tab, complaints = opened(browser, client, "/docs", 390)
        routes = tab.locator("h2:visible").all_text_contents()
        assert {
            "/tasks",
            "/tasks/{name}",
            "/tasks/{name}/predict",
            "/tasks/{name}/scores",
            "/recognise",
            "/members",
            "/healthz",
            "/readyz",
            "/metrics",
            "/training",
        } == set(routes)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        assert complaints == []
        tab.close()


def test_features_are_asked_as_numbers(browser, tmp_path) -> None:
    from toys import blobs

    zoolearn.new(tmp_path / "zoo", epochs=1).learn(blobs())
    with serving(tmp_path / "zoo") as client:
        tab, complaints = opened(browser, client)
        tab.fill("#row", "1, 2 3;4 5 6")
        tab.click("#numbers button")
        tab.wait_for_selector(".verdict")
        assert complaints == []
        tab.fill("#row", "1, 2")
        tab.click("#numbers button")
        tab.wait_for_selector("#answer .wrong")
        assert "rows of 6 finite numbers" in tab.locator("#answer").text_content()
        tab.close()


def test_each_column_of_a_table_has_its_field(browser, tmp_path) -> None:
    rows = "".join(f"{row % 2},{row},{'warm' if row % 2 else 'cold'}\n" for row in range(20))
    (tmp_path / "table.csv").write_text("width,height,kind\n" + rows)
    zoo = zoolearn.new(tmp_path / "zoo", epochs=2)
    zoo.learn_from("rows", open_source(tmp_path / "table.csv", Columns("kind")))
    with serving(tmp_path / "zoo") as client:
        tab, complaints = opened(browser, client)
        assert tab.locator("#columns label").all_text_contents() == ["width", "height"]
        tab.fill("#columns input[name=height]", "7,5")
        tab.fill("#columns input[name=width]", "much")
        tab.click("#numbers button")
        assert tab.locator("#answer .wrong").text_content() == "width: much is not a number."
        tab.fill("#columns input[name=width]", "1")
        tab.click("#numbers button")
        expected = zoo.predict(np.array([[1, 7.5]]), "rows")[0]
        assert tab.locator(".verdict").text_content() == expected
        assert complaints == []
        tab.close()


def test_an_empty_zoo_says_how_to_teach_it(browser, tmp_path) -> None:
    zoolearn.new(tmp_path / "fresh")
    with serving(tmp_path / "fresh") as client:
        tab, complaints = opened(browser, client)
        assert "zoo learn fresh birds" in tab.locator("#how").text_content()
        assert not any(tab.locator(f"#{part}").is_visible() for part in ("ask", "known", "grown", "picture"))
        assert complaints == []
        tab.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_no_accuracy_is_cut_where_members_are_many(browser, many, width) -> None:
    with serving(many) as client:
        tab, complaints = opened(browser, client, "/", width)
        assert tab.locator(".tasks tr[data-task]").count() == 20
        tab.click("#all")
        tab.locator(".tasks tr[data-task]").nth(39).wait_for()
        edges = "[...document.querySelectorAll('.tasks td')].map(cell => cell.getBoundingClientRect().right)"
        assert max(tab.evaluate(edges)) <= width
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.fill("#filter", "task 7")
        tab.locator(".tasks tr[data-task]").nth(1).wait_for(state="detached")
        assert tab.locator(".tasks tr[data-task]").count() == 1
        assert complaints == []
        tab.close()


def test_every_chart_has_the_scale_of_every_other(browser, many) -> None:
    with serving(many) as client:
        tab, _ = opened(browser, client)
        axes = tab.locator("#growth svg").evaluate_all(
            "charts => charts.map(chart => [...chart.querySelectorAll('text[text-anchor=end]')].map(t => t.textContent).join())"
        )
        assert set(axes) == {"0 %,50 %,100 %"}
        tab.close()


def test_a_task_shows_what_it_mistakes_and_what_is_wrong_with_its_accuracy(browser, tmp_path) -> None:
    few = HAZY[0]
    few = replace(few, test=few.test.select(torch.arange(4)))
    zoo = small_zoo(tmp_path / "zoo", [few])
    with serving(zoo.path) as client:
        tab, _ = opened(browser, client)
        tab.wait_for_selector(".tasks.classes")
        told = tab.locator("#detail").text_content()
        assert all(note in told for note in zoo.scores(few.name).notes())
        assert zoo.scores(few.name).notes()
        assert tab.locator(".tasks.classes tbody tr").count() == len(few.classes)
        assert "expected calibration error" in told
        cells = tab.locator(".confusion tbody td").all_text_contents()
        counts = [count for row in zoo.scores(few.name).confusion for count in row]
        assert cells == [str(count) if count else "" for count in counts]
        tab.close()


def test_a_task_of_many_classes_says_that_what_is_taken_for_what_is_not_drawn(browser, tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", [pictures("many", classes=41, per_class=2, test_per_class=1)])
    with serving(zoo.path) as client:
        tab, _ = opened(browser, client)
        tab.wait_for_selector(".tasks.classes")
        assert "What is taken for what is drawn up to 40 classes" in tab.locator("#detail").text_content()
        assert tab.locator("#confusion").count() == 0
        tab.close()


def test_a_report_is_a_page_in_one_file_that_needs_no_server(browser, folder, tmp_path, capsys) -> None:
    file = tmp_path / "report.html"
    cli.main(["report", str(folder), "--html", str(file)])
    tab, complaints = watched_tab(browser, file.as_uri(), (file.as_uri(), "data:"), width=390)
    assert tab.locator("h1").text_content() == "birds & <b>bees"
    assert tab.locator(".tasks tr[data-task]").count() == 2
    tab.locator(".tasks button", has_text="stripes").click()
    assert "stripes" in tab.locator("#detail h3").text_content()
    assert not tab.locator("#ask").is_visible()
    assert complaints == []
    tab.close()

#!/usr/bin/python3
"""Does the page of `lockstep report` work in a browser, on a desk and on a phone, by day and by night?

    report_test.py PROGRAM [PICTURES]     PICTURES: a folder for screenshots; none are taken without it

It needs Debian's chromium, chromium-driver and python3-selenium, and for the last scenario the measuring half in
PROGRAM's build folder (or $LOCKSTEP_CALIBRATE). Run it from the repository's root.
"""
import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

PROGRAM = ""
PICTURES = None
SCENARIOS = ["scenarios/ovi2026/vgg16.yaml", "scenarios/study_which_strategy.yaml", "scenarios/does_not_fit.yaml",
             "scenarios/gpt_64_gpus.yaml", "scenarios/parameter_server_sharding.yaml", "tests/report/trained.yaml"]

# The number of colors on each canvas.
DRAWN = """
return [...document.querySelectorAll("canvas[data-chart], canvas[data-timeline]")].map((canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < pixels.length; i += 4) {
    if (pixels[i + 3] > 200) colours.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
  }
  return [canvas.dataset.chart || "timeline", colours.size];
});"""

OVERLAPS = """
return [...document.querySelectorAll("canvas[data-chart]")].filter((canvas) =>
  canvas.getBoundingClientRect().bottom > canvas.parentElement.getBoundingClientRect().bottom + 1).map((canvas) => canvas.dataset.chart);"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name) / "report.html"
        subprocess.run([PROGRAM, "report", *SCENARIOS, "-o", str(cls.path)], check=True, stderr=subprocess.DEVNULL)
        options = Options()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        cls.browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        cls.browser.execute_cdp_cmd("Network.enable", {})

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.folder.cleanup()

    def light(self, dark):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def show(self, width, height, dark=False):
        self.light(dark)
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700})
        for log in ("browser", "performance"):
            self.browser.get_log(log)
        self.browser.get(self.path.as_uri())

    def picture(self, name, width, most=6000):
        if PICTURES is None:
            return
        height = min(most, self.browser.execute_script("return document.documentElement.scrollHeight"))
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {
            "format": "png", "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}})
        (PICTURES / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def check(self, width):
        self.assertEqual(self.browser.get_log("browser"), [], "the console is silent")
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        requests = [message["params"]["request"]["url"] for message in messages
                    if message["method"] == "Network.requestWillBeSent"]
        self.assertEqual([url for url in requests if not url.startswith("data:")], [self.path.as_uri()])
        charts = self.browser.execute_script(DRAWN)
        self.assertGreater(len(charts), 20)
        for name, colours in charts:
            self.assertGreater(colours, 3, f"{name} is drawn")
        self.assertEqual(self.browser.execute_script(OVERLAPS), [], "no chart lies over what is below it")
        self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), width,
                             "nothing sticks out to the right")

    def test_desk(self):
        self.show(1280, 900)
        self.check(1280)
        self.picture("report-desk", 1280)

    def test_desk_at_night(self):
        self.show(1280, 900, dark=True)
        self.check(1280)
        self.picture("report-night", 1280)

    def test_phone(self):
        self.show(390, 844)
        self.check(390)
        self.picture("report-phone", 390)

    def test_narrow_phone_at_night(self):
        self.show(320, 640, dark=True)
        self.check(320)

    def test_a_change_of_light_draws_anew(self):
        self.show(1280, 900)
        self.light(dark=True)
        self.assertEqual(self.browser.execute_script("return getComputedStyle(document.body).color"),
                         "rgb(232, 237, 243)")
        self.check(1280)

    def after_drawing(self):
        self.browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def view(self):
        """The seconds between which the first timelines show their step."""
        self.after_drawing()
        words = self.browser.find_element("css selector", ".timelines .range").text.split(" to ")
        units = {"s": 1, "ms": 1e-3, "µs": 1e-6}
        return [float(word.split()[0]) * units[word.split()[1]] if word != "0" else 0 for word in words]

    def press(self, name):
        self.browser.find_element("css selector", f".timelines [aria-label='{name}']").click()
        return self.view()

    def mouse(self, kind, x, y, **more):
        self.browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def test_every_strategy_has_a_timeline(self):
        self.show(1280, 900)
        titles = [title.text for title in self.browser.find_elements("css selector", "#timeline-0 h3")]
        self.assertEqual(titles, ["ddp on 4 GPUs", "fsdp on 4 GPUs"])
        if PICTURES is not None:
            self.browser.find_element("css selector", "#timeline-0").screenshot(str(PICTURES / "timeline.png"))
        self.assertEqual(len(self.browser.find_elements("css selector", "figure.timelines")), len(SCENARIOS))

    def test_a_timeline_zooms_and_moves_by_buttons(self):
        self.show(1280, 900)
        first, last = self.view()
        self.assertEqual(first, 0)
        low, high = self.press("Zoom in")
        self.assertAlmostEqual((high - low) / last, 0.5, places=2)
        self.assertAlmostEqual(self.press("Later")[0] / last, 0.5, places=2)
        self.assertAlmostEqual(self.press("Earlier")[0] / last, 0.25, places=2)
        self.press("Zoom out")
        self.assertEqual(self.press("Whole step"), [first, last])
        self.check(1280)

    def test_a_timeline_zooms_and_moves_by_keys(self):
        self.show(1280, 900)
        first, last = self.view()
        canvas = self.browser.find_element("css selector", "canvas[data-timeline]")
        heard = self.browser.find_element("css selector", ".timelines .live")
        said = []
        for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_UP):
            canvas.send_keys(key)
            said.append(heard.get_attribute("textContent"))
        self.assertEqual(len(set(said[:3])), 3, said)
        for words in said:
            self.assertRegex(words, r"^.+, .+, starts at .+, lasts .+$")
        canvas.send_keys(Keys.ENTER)
        low, high = self.view()
        self.assertLess(high - low, 0.5 * (last - first))
        canvas.send_keys(Keys.HOME)
        self.assertEqual(self.view(), [first, last])
        canvas.send_keys("+")
        low, high = self.view()
        self.assertAlmostEqual((high - low) / last, 0.5, places=2)
        canvas.send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
        self.assertGreater(self.view()[0], low)
        self.check(1280)

    def test_a_timeline_zooms_and_moves_under_the_mouse(self):
        self.show(1280, 900)
        first, last = self.view()
        canvas = self.browser.find_element("css selector", "canvas[data-timeline]")
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
        box = self.browser.execute_script("const b = arguments[0].getBoundingClientRect(); return [b.x, b.y]", canvas)
        x, y = box[0] + 400, box[1] + 33  # in the compute lane
        self.mouse("mouseMoved", x, y)
        self.after_drawing()
        tip = self.browser.find_element("css selector", ".timelines .tip")
        self.assertIn("lasts", tip.text)
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)
        self.assertEqual(self.view(), [first, last])  # before the first click the wheel scrolls the page
        self.browser.execute_script("arguments[0].focus({preventScroll: true}); arguments[0].scrollIntoView({block: 'center'})", canvas)
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)
        low, high = self.view()
        self.assertLess(high - low, 0.9 * last)
        self.assertGreater(low, 0)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseMoved", x - 100, y, button="left", buttons=1)
        self.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
        self.assertGreater(self.view()[0], low)
        self.check(1280)

    def test_what_a_timeline_shows_is_a_table_too(self):
        self.show(1280, 900)
        self.browser.find_element("css selector", ".timelines .listing summary").click()
        self.after_drawing()
        rows = lambda: self.browser.execute_script(
            "return [...document.querySelectorAll('.listing tbody tr')].map((row) => row.textContent)")
        everything = rows()
        self.assertGreater(len(everything), 100)
        for _ in range(6):
            self.press("Zoom in")
        self.assertLess(len(rows()), 50)
        self.assertGreater(len(rows()), 2)
        self.check(1280)

    def test_what_was_trained_is_drawn(self):
        chapter = len(SCENARIOS) - 1
        for width, dark in ((1280, False), (390, True)):
            self.show(width, 900, dark=dark)
            data = json.loads(self.browser.execute_script("return document.getElementById('data').textContent"))
            points = [p for p in data["chapters"][chapter]["result"]["predictions"] if "accuracy" in p]
            self.assertEqual(len(points), 4, "trained: is the measuring half built?")
            for chart in ("accuracy", "frontier", "frontier_price"):
                canvas = self.browser.find_element("css selector", f"canvas[data-chart={chart}][data-chapter='{chapter}']")
                if PICTURES is not None and not dark:
                    canvas.screenshot(str(PICTURES / f"{chart}.png"))
                if chart == "accuracy":
                    continue
                # The keyboard visits every point once and announces its value.
                heard = self.browser.execute_script("return arguments[0].closest('figure').querySelector('.live')", canvas)
                said = []
                for _ in points:
                    canvas.send_keys(Keys.ARROW_RIGHT)
                    said.append(heard.get_attribute("textContent"))
                for p in points:
                    words = [text for text in said if f"{p['strategy']} · {p['gpus']} GPU" in text]
                    self.assertEqual(len(words), 1, said)
                    self.assertAlmostEqual(float(re.search(r": ([\d.]+) %", words[0])[1]), 100 * p["accuracy"]["mean"], delta=0.1)
            self.check(width)

    def test_print(self):
        self.show(1280, 900, dark=True)
        pdf = base64.b64decode(self.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))
        if PICTURES is not None:
            (PICTURES / "report.pdf").write_bytes(pdf)
        self.check(1280)

    def test_keyboard(self):
        self.show(1280, 900)
        canvas = self.browser.find_element("css selector", "canvas[data-chart=step]")
        heard = self.browser.execute_script("return arguments[0].closest('figure').querySelector('.live')", canvas)
        said = []
        for _ in range(3):
            canvas.send_keys(Keys.ARROW_RIGHT)
            said.append(heard.get_attribute("textContent"))
        self.assertEqual(len(set(said)), 3, said)
        self.assertIn("ddp · 1 GPU", said[0])
        self.check(1280)

    def test_all_scenarios_are_compared_first(self):
        for width, dark in ((1280, False), (390, True)):
            self.show(width, 900, dark=dark)
            self.assertEqual(self.browser.find_element("css selector", "h1").text,
                             f"{len(SCENARIOS)} alternatives compared")
            canvas = self.browser.find_element("css selector", "canvas[data-chart=alternatives]")
            heard = self.browser.execute_script("return arguments[0].closest('figure').querySelector('.live')", canvas)
            rows = self.browser.find_elements("css selector", "#comparison .panel tbody")[0].find_elements("tag name", "tr")
            canvas.send_keys(Keys.ARROW_RIGHT)
            self.assertIn("1. ", heard.get_attribute("textContent"))
            self.assertIn(" yes ", rows[0].text)
            self.assertIn(" NO ", rows[-1].text)
            if PICTURES is not None:
                self.browser.find_element("css selector", "#comparison").screenshot(
                    str(PICTURES / f"comparison-{width}.png"))
            self.check(width)

    # Without its table a chart is invisible to a screen reader.
    def test_every_chart_has_a_table_behind_it(self):
        self.show(1280, 900)
        figures = self.browser.execute_script("""
            return [...document.querySelectorAll("canvas[data-chart]")].map((canvas) => [canvas.dataset.chart, canvas.getAttribute("role"),
              document.getElementById(canvas.getAttribute("aria-labelledby")).textContent,
              [...canvas.closest("figure").querySelectorAll("tbody tr")].map((row) => row.cells.length)]);""")
        self.assertEqual({name for name, *_ in figures}, {
            "alternatives", "step", "throughput", "time", "memory", "memory_over_step", "exposed", "traffic", "staleness", "accuracy", "frontier",
            "frontier_price", "cost"})
        for name, role, title, rows in figures:
            self.assertEqual(role, "img")
            self.assertNotEqual(title, "")
            self.assertTrue(rows, name)
            self.assertEqual(len(set(rows)), 1, name)

    def test_a_chart_of_nothing_is_not_drawn(self):
        self.show(1280, 900)
        shown = lambda changes: self.browser.execute_script("""
            const chapter = structuredClone(data.chapters[0]);
            chapter.result.predictions.length = 2;
            chapter.memory = [];
            for (const table of ["traffic", "staleness", "accuracy"]) chapter.tables[table].rows = [];
            const [first, second] = chapter.result.predictions;
            for (const p of [first, second]) { p.gpus = 1; p.provenance = { measured: 1, interpolated: 0, modelled: 0 }; p.split_seconds.exposed_communication = 0; }
            """ + changes + """;
            return Object.keys(charts).filter((name) => name !== "alternatives" && chartFigure(name, chapter, 0).length);""")
        self.assertEqual(shown(""), ["step", "memory", "cost"])
        self.assertEqual(shown("second.gpus = 4"), ["step", "throughput", "time", "memory", "cost"])
        self.assertIn("exposed", shown("second.split_seconds.exposed_communication = 1e-3"))
        staleness = "chapter.tables.staleness.rows = [['ps', 1]]; second.staleness = {max: %d}"
        self.assertNotIn("staleness", shown(staleness % 0))  # never stale
        self.assertIn("staleness", shown(staleness % 1))
        self.assertIn("provenance", shown("second.provenance = {measured: 0.98, interpolated: 0, modelled: 0.02}"))
        self.assertNotIn("provenance", shown("second.provenance = {measured: 0.996, interpolated: 0, modelled: 0.004}"))
        self.assertEqual(shown("first.dollars = second.dollars = 0"), ["step", "memory"])

    def test_fronts_hold_what_nothing_beats(self):
        self.show(1280, 900)
        best = self.browser.execute_script("""
            const point = (strategy, total_seconds, dollars, fits = true, mean = 0) =>
              ({ strategy, total_seconds, dollars, fits, accuracy: { mean, curve: [{ seconds: total_seconds / 2 }] } });
            const names = (points) => points.map((p) => p.strategy);
            const trained = [point("slow and good", 100, 1, true, 0.9), point("fast and poor", 10, 3, true, 0.7), point("slow and poor", 100, 2, true, 0.7)];
            return [
              names(cheapest({ result: { predictions: [point("a", 400, 0.4), point("b", 100, 0.9), point("misfit", 1, 0.01, false), point("c", 200, 0.9),
                point("d", 500, 0.39), point("unpriced", 50)] } })),
              names(front(trained, trainedSeconds, (p) => -p.accuracy.mean)), names(front(trained, trainedDollars, (p) => -p.accuracy.mean)),
              trainedSeconds(trained[0]), trainedDollars(trained[0])];""")
        self.assertEqual(best, [["b", "a", "d"], ["fast and poor", "slow and good"], ["slow and good"], 50, 0.5])

    def test_texts_of_users_are_texts(self):
        name = '<img src=x onerror="document.title = 1"> & </script><script>document.title = 2</script>'
        scenario = pathlib.Path(self.folder.name) / "named.yaml"
        text = pathlib.Path(SCENARIOS[0]).read_text(encoding="utf-8")
        scenario.write_text(re.sub(r"(?m)^name: .*$", "name: '" + name + "'", text), encoding="utf-8")
        page = pathlib.Path(self.folder.name) / "named.html"
        subprocess.run([PROGRAM, "report", str(scenario), "-o", str(page)], check=True, stderr=subprocess.DEVNULL)
        self.browser.get(page.as_uri())
        self.assertEqual(self.browser.find_element("css selector", "h1").text, name)
        self.assertEqual(self.browser.title, name)
        self.assertEqual(self.browser.find_elements("css selector", "img"), [])

    def test_without_scripts_there_are_the_figures(self):
        self.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            self.show(1280, 900)
            text = self.browser.find_element("css selector", "noscript").text
        finally:
            self.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        self.assertIn("Without JavaScript", text)
        for part in (f"{len(SCENARIOS)} alternatives", "VGG-16 on CIFAR-10", "90 % interval", "Where the step goes", "Peak memory per GPU"):
            self.assertIn(part, text)

    def test_every_control_has_a_name(self):
        self.show(1280, 900)
        tree = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        named = [node for node in tree if not node.get("ignored") and
                 node["role"]["value"] in ("image", "link", "table", "heading", "DisclosureTriangle")]
        self.assertGreater(len(named), 100)
        for node in named:
            self.assertNotEqual(node["name"]["value"], "", node)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    if len(sys.argv) > 2:
        PICTURES = pathlib.Path(sys.argv[2])
        PICTURES.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1])

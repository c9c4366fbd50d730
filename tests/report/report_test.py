#!/usr/bin/python3
"""Does the page of `lockstep report` work in a browser, on a desk and on a phone, by day and by night?

    report_test.py PROGRAM [PICTURES]     PICTURES: a folder for screenshots

Needs Debian's chromium, chromium-driver and python3-selenium. Run from the repository's root.
"""
import base64
import json
import pathlib
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
             "scenarios/gpt_64_gpus.yaml", "scenarios/parameter_server_sharding.yaml"]

# How many colours are on each canvas.
DRAWN = """
return [...document.querySelectorAll("canvas[data-chart]")].map((canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < pixels.length; i += 4) {
    if (pixels[i + 3] > 200) colours.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
  }
  return [canvas.dataset.chart, colours.size];
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
        heard = self.browser.find_element("css selector", "figure .live")
        said = []
        for _ in range(3):
            canvas.send_keys(Keys.ARROW_RIGHT)
            said.append(heard.get_attribute("textContent"))
        self.assertEqual(len(set(said)), 3, said)
        self.assertIn("ddp · 1 GPU", said[0])
        self.check(1280)

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

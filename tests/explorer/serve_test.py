#!/usr/bin/env python3
"""Does the server of `lockstep serve` answer the requests that it should, refuse all others, and stay small and fast?

    serve_test.py PROGRAM [REQUESTS]     REQUESTS: number of answers in a row (default 100)

Run with LOCKSTEP_DATA set to the repository's root.
"""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest

PROGRAM = ""
REQUESTS = 100
DATA = pathlib.Path(os.environ.get("LOCKSTEP_DATA") or pathlib.Path(__file__).parents[2])
SCENARIO = str(DATA / "scenarios/ovi2026/vgg16.yaml")


def begun(*options):
    process = subprocess.Popen([PROGRAM, "serve", SCENARIO, "--port", "0", *options], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    return process, int(process.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process, cls.port = begun()

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        cls.process.wait(timeout=10)
        cls.process.stdout.close()

    def ask(self, method, target, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, target, body, headers or {})
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply, text

    def answer(self, settings=(), scenario=SCENARIO, **headers):
        question = json.dumps({"scenario": scenario, "settings": list(settings)})
        reply, text = self.ask("POST", "/answer", question, {"Content-Type": "application/json", **headers})
        return reply.status, json.loads(text)

    def refused(self, *settings):
        status, answer = self.answer(settings)
        self.assertEqual(status, 422, answer)
        return answer["errors"][0]

    def test_the_page_and_its_files(self):
        for target, kind in (("/", "text/html"), ("/report.css", "text/css"), ("/explorer.css", "text/css"),
                             ("/library.js", "text/javascript"), ("/report.js", "text/javascript"),
                             ("/explorer.js", "text/javascript"), ("/choices", "application/json")):
            reply, text = self.ask("GET", target)
            self.assertEqual(reply.status, 200, target)
            self.assertIn(kind, reply.getheader("Content-Type"))
            self.assertIn("default-src 'none'", reply.getheader("Content-Security-Policy"))
            self.assertEqual(reply.getheader("X-Content-Type-Options"), "nosniff")
            self.assertGreater(len(text), 500)

    def test_what_is_offered_can_be_had(self):
        choices = json.loads(self.ask("GET", "/choices")[1])
        self.assertEqual(choices["start"], SCENARIO)
        for preset in choices["strategies"]:
            status, answer = self.answer(["strategies=[" + preset["entry"] + "]", "gpus=2"])
            self.assertEqual(status, 200, answer)
            self.assertEqual(len(answer["data"]["chapters"][0]["result"]["predictions"]), 1)

    def test_an_answer_is_what_run_says(self):
        settings = ["gpus=2,4", "batch={per_gpu: 64}", "model=resnet50", "input={}", "stragglers.slow_ranks=[{rank: 0, factor: 2}]"]
        status, answer = self.answer(settings)
        self.assertEqual(status, 200)
        said = subprocess.run([PROGRAM, "run", SCENARIO, "--json", *(f"--set={one}" for one in settings)],
                              capture_output=True, text=True, check=True).stdout
        self.assertEqual(answer["data"]["chapters"][0]["result"], json.loads(said))
        self.assertEqual(answer["form"]["gpus"], [2, 4])
        self.assertEqual(answer["form"]["samples"], 64)
        self.assertTrue(answer["command"].startswith("lockstep run "))

    def test_wrong_input_is_told(self):
        self.assertIn("did you mean 'resnet50'", self.refused("model=resnet5O")["hint"])
        error = self.refused("gpus=5000")
        self.assertEqual(error["field"], "gpus")
        self.assertIn("at most 64", error["message"])
        self.assertIn("did you mean 'fsdp'", self.refused("strategies=[fsdq]")["hint"])

    def test_it_reads_no_other_file(self):
        for setting in ("model=/etc/passwd", "platform=../platforms/dgx-h100.yaml", "model=" + str(DATA / "models/vgg16.yaml"),
                        "profile=/etc", "anchor=[{gpus: 1, step_time: 1 s}]", "convergence={data: /etc}",
                        "stragglers.per_step={empirical: {file: /etc/passwd}}",
                        "stragglers={per_step: {empirical: {file: /etc/passwd}}}",
                        "stragglers.other_devices=[{device: /etc/passwd, nodes: 0}]"):
            self.refused(setting)
        for target in ("/../README.md", "/%2e%2e/README.md", "//etc/passwd", "/etc/passwd", "/models/vgg16.yaml", "/?x"):
            self.assertEqual(self.ask("GET", target)[0].status, 404, target)
        self.assertEqual(self.answer(scenario="/etc/passwd")[0], 400)
        self.assertEqual(self.answer(scenario=str(DATA / "docs/examples/commented.yaml"))[0], 400)

    def test_no_other_page_may_ask(self):
        for host in ("example.com", f"example.com:{self.port}", f"127.0.0.1.example.com:{self.port}", "127.0.0.1", "[::1]"):
            self.assertEqual(self.of_host(host), 421, host)
        own = f"http://127.0.0.1:{self.port}"
        self.assertEqual(self.answer(["gpus=1"], Origin=own)[0], 200)
        for origin in ("http://example.com", "null", "https" + own[4:], own + ".example.com", f"http://127.0.0.1:{self.port + 1}"):
            self.assertEqual(self.of_origin(origin), 403, origin)
        reply, _ = self.ask("POST", "/answer", "{}", {"Content-Type": "text/plain"})
        self.assertEqual(reply.status, 415)

    def of_host(self, host):
        return self.ask("GET", "/choices", headers={"Host": host})[0].status

    def of_origin(self, origin):
        return self.ask("POST", "/answer", "{}", {"Origin": origin, "Content-Type": "application/json"})[0].status

    def test_no_question(self):
        for body in ("", "{", "[]", "{}", '{"scenario": 3, "settings": []}', '{"scenario": "x", "settings": [1]}', "[" * 60000):
            reply, text = self.ask("POST", "/answer", body, {"Content-Type": "application/json"})
            self.assertEqual(reply.status, 400, body[:20])
            self.assertIn("errors", json.loads(text))
        self.assertEqual(self.ask("POST", "/answer", "x" * 70000, {"Content-Type": "application/json"})[0].status, 413)
        self.assertEqual(self.ask("GET", "/answer")[0].status, 405)
        self.assertEqual(self.ask("DELETE", "/")[0].status, 405)

    def test_what_is_no_http_harms_nobody(self):
        silent = socket.create_connection(("127.0.0.1", self.port))
        for raw in (b"\0\1\2\3", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nHost: " + b"a" * 20000 + b"\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.sendall(raw)
        self.assertEqual(self.ask("GET", "/")[0].status, 200)
        silent.close()

    def test_only_this_machine_is_answered(self):
        with open("/proc/net/tcp", encoding="ascii") as table:
            here = [line.split()[1] for line in table if line.split()[1].endswith(f":{self.port:04X}") and line.split()[3] == "0A"]
        self.assertEqual(here, [f"0100007F:{self.port:04X}"])

    def test_a_port_that_is_taken(self):
        taken = subprocess.run([PROGRAM, "serve", SCENARIO, "--port", str(self.port)], capture_output=True, text=True)
        self.assertEqual(taken.returncode, 74)
        self.assertIn("--port 0", taken.stderr)

    def test_ctrl_c_ends_it_also_in_the_middle_of_an_answer(self):
        for wait in (None, 0.02):
            process, port = begun()
            if wait is not None:
                connection = http.client.HTTPConnection("127.0.0.1", port)
                question = {"scenario": SCENARIO, "settings": ["gpus=1..64", "platform=dgx-h100"]}
                connection.request("POST", "/answer", json.dumps(question), {"Content-Type": "application/json"})
                self.addCleanup(connection.close)
                time.sleep(wait)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=10), 0)
            process.stdout.close()

    # A question that takes minutes must not block others, and must end with its connection.
    def test_a_long_question_is_told_of_and_ends_with_its_connection(self):
        def children():
            return pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()

        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        question = {"scenario": SCENARIO, "settings": ["platform=dgx-h100", "gpus=1024", "batch={micro: 1, accumulation: 4096}",
                                                       "strategies=[{parameter_server: {consistency: async}}]"]}
        connection.request("POST", "/answer", json.dumps(question), {"Content-Type": "application/json", "X-Question": "long"})
        until = time.monotonic() + 30
        while (progress := json.loads(self.ask("GET", "/progress/long")[1])) is None:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)
        self.assertEqual(progress["all"], 1)
        self.assertLess(progress["fraction"], 1)
        self.assertEqual(self.answer()[0], 200)  # meanwhile
        self.assertTrue(children())
        connection.close()
        while children() or self.ask("GET", "/progress/long")[1] != "null":
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)

    # The length of a sample and of the run, and the price, can be chosen.
    def test_sequence_image_dataset_and_price(self):
        status, answer = self.answer(["input.image=[3,64,64]", "dataset={samples: 1000, epochs: 3}", "price_per_gpu_hour=3 USD/h"])
        self.assertEqual(status, 200, answer)
        form = answer["form"]
        self.assertEqual(form["image"], [3, 64, 64])
        self.assertNotIn("sequence", form)
        self.assertEqual(form["dataset"], {"of": "samples", "amount": 1000.0, "epochs": 3.0})
        self.assertEqual(form["price"], 3.0)
        status, answer = self.answer(["model=gpt2", "input={sequence: 256}", "strategies=[ddp]", "gpus=1", "batch={per_gpu: 2}"])
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["form"]["sequence"], 256)
        reads = {one["name"]: one["reads"] for one in json.loads(self.ask("GET", "/choices")[1])["models"]}
        self.assertEqual((reads["gpt2"], reads["vgg16"]), ("tokens", "images"))

    def test_many_answers(self):
        def resident():
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            return int(status.split("VmRSS:")[1].split()[0])

        def one(i):
            began = time.monotonic()
            status, _ = self.answer([f"batch={{per_gpu: {16 + i % 240}}}", f"gpus=1,2,{4 + i % 3 * 4}"])
            self.assertEqual(status, 200)
            return time.monotonic() - began

        for i in range(20):
            one(i)
        before = resident()
        times = sorted(one(i) for i in range(REQUESTS))
        grown = resident() - before
        print(f"{REQUESTS} answers: median {1000 * times[REQUESTS // 2]:.0f} ms, "
              f"95 % within {1000 * times[REQUESTS * 95 // 100]:.0f} ms, grown by {grown} KiB")
        self.assertLess(grown, 8192)  # less than one answer's working set
        # A connection ends soon after its reader has gone. Listener, epoll, timer and standard streams stay.
        for _ in range(100):
            files = len(os.listdir(f"/proc/{self.process.pid}/fd"))
            if files < 12:
                break
            time.sleep(0.05)
        self.assertLess(files, 12)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    if len(sys.argv) > 2:
        REQUESTS = int(sys.argv[2])
    unittest.main(argv=sys.argv[:1])

"""A server of a tiny GPT-2 of Hugging Face, as llama-cpp-python, vLLM and OpenAI answer, and wrong.

Its numbers are the softmax of transformers' own logits. What it does wrong is a set of names.
"""

import json
import math
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import GPT2LMHeadModel

from tests.unit.huggingface_models import END

FAULTS = (
    *("generated", "shifted", "temperature", "top_p", "unnormalized", "batch", "order", "cache"),
    *("doubled", "missing", "cut", "lower", "restless"),
)


@dataclass
class FakeServer:
    """A server at `url` for as long as a ``with`` lasts.

    `style`: whose answers; `busy` requests are answered with `refusal` first; after `lasts`
    requests it hangs up; `pages`: it answers HTML.
    """

    folder: str
    style: str = "llama-cpp-python"  # vllm, openai
    faults: tuple = ()
    echoes: bool = True  # else echo is ignored, as by some versions of vLLM
    begins: int = 1  # how many tokens it puts before a text
    context: int = 64
    latency: float = 0.0
    key: str = ""
    busy: int = 0
    refusal: int = 429
    lasts: float = math.inf
    pages: bool = False
    name: str = "tiny"
    chats: bool = False  # whether it has a chat template
    asked: list = field(default_factory=list)  # bodies of completions

    def __enter__(self):
        self.model = load_model(self.folder)
        self.tokenizer = Tokenizer.from_file(f"{self.folder}/tokenizer.json")
        self.rows = lru_cache(None)(self._rows)
        self.lock, self.under_way, self.seen, self.last = threading.Lock(), 0, set(), ""
        self.noise, self.requests, self.waited = np.random.default_rng(0), 0, 0
        handler = type("Handler", (Handler,), {"fake": self})
        self.http = Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def _rows(self, ids, temperature, top_p):
        """Return ln p of every token after each of some ids, (n, V)."""
        with torch.no_grad():
            rows = self.model(torch.tensor([ids])).logits[0].double() / temperature
        rows = rows.log_softmax(-1).numpy()
        if top_p < 1:
            order = np.argsort(-rows, 1)
            probabilities = np.take_along_axis(np.exp(rows), order, 1)
            out = np.cumsum(probabilities, 1) - probabilities >= top_p
            np.put_along_axis(rows, order, np.where(out, -np.inf, np.log(probabilities)), 1)
            rows -= np.log(np.exp(rows).sum(1, keepdims=True))
        return np.maximum(rows, -9999.0)

    def encode(self, text):
        """Return the ids of a text, with what the server puts before it."""
        begins = {"doubled": 2, "missing": 0}
        begins = [begins[one] for one in self.faults if one in begins] or [self.begins]
        text = text.lower() if "lower" in self.faults else text
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return [0] * begins[0] + ids

    def bytes_of(self, token):
        return bytes(BYTES[one] for one in self.tokenizer.id_to_token(token))

    def shown(self, token):
        """Show a token as servers of the style do."""
        if token == 0:
            return "" if self.style == "llama-cpp-python" else END
        raw = self.bytes_of(token)
        if self.style == "openai":
            with suppress(UnicodeDecodeError):
                return raw.decode()
            return "bytes:" + "".join(chr(b) if b < 128 else f"\\x{b:02x}" for b in raw)
        return raw.decode(errors="ignore" if self.style == "llama-cpp-python" else "replace")

    def scores(self, ids, body, alone):
        """Return ln p of each token, the first None, and of all that may come after each."""
        how = (body.get("temperature", 1.0) if "temperature" in self.faults else 1.0) or 1.0
        top_p = body.get("top_p", 1.0) if "top_p" in self.faults else 1.0
        rows = self.rows(tuple(ids), how, top_p).copy()
        if "unnormalized" in self.faults:
            rows *= 0.5
        text = str(ids)
        off = 0.0
        off += 0.1 * ("batch" in self.faults and not alone)
        off += 0.1 * ("order" in self.faults and self.last != "" and self.last != text)
        off += 0.1 * ("cache" in self.faults and text in self.seen)
        off += self.noise.random() * ("restless" in self.faults)
        self.seen.add(text)
        self.last = text
        if "shifted" in self.faults:
            return [None, *(rows[i][ids[i]] for i in range(1, len(ids)))], rows
        return [None, *(rows[i - 1][ids[i]] - off for i in range(1, len(ids)))], rows

    def answer(self, body, alone):
        """Answer a request of completions."""
        prompt = body["prompt"]
        ids = self.encode(prompt) if isinstance(prompt, str) else list(prompt)
        if len(ids) + 1 > self.context:
            if "cut" not in self.faults:
                said = f"This model's maximum context length is {self.context} tokens, however you "
                said += f"requested {len(ids) + 1} tokens ({len(ids)} in your prompt; 1 for the "
                said += "completion). Please reduce your prompt; or completion length."
                return 400, {"error": {"message": said, "code": "context_length_exceeded"}}
            ids = ids[: self.context - 1]
        values, rows = self.scores(ids, body, alone)
        new = int(rows[-1].argmax())
        tops = [None, *(rows[i] for i in range(len(ids)))]
        chosen, numbers = [*ids, new], [*values, float(rows[-1][new])]
        choice = {"index": 0, "text": self.shown(new), "finish_reason": "length"}
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1, "total_tokens": len(ids) + 1}
        found = {"object": "text_completion", "model": self.name, "choices": [choice]}
        knows = self.style == "vllm" and "generated" not in self.faults
        if body.get("prompt_logprobs") is not None and knows:
            most = body["prompt_logprobs"]
            choice["prompt_logprobs"] = [None, *(
                self.entry(token, number, row, most)
                for token, number, row in zip(ids[1:], values[1:], tops[1:-1], strict=True)
            )]  # fmt: skip
        if body.get("logprobs") is not None:
            echo = body.get("echo") and self.echoes and "generated" not in self.faults
            first = 0 if echo else len(ids)
            if self.style == "llama-cpp-python":
                while first < len(ids) and chosen[first] == 0:
                    first += 1
                numbers[first] = None if echo else numbers[first]
            most = body["logprobs"]
            choice["logprobs"] = self.listed(chosen[first:], numbers[first:], tops[first:], most)
        return 200, {**found, "usage": usage}

    def write(self, body):
        """Answer with tokens that are drawn one by one, said by their ids."""
        ids, start = list(body["prompt"]), len(body["prompt"])
        random = np.random.default_rng(body["seed"])
        while len(ids) < start + body["max_tokens"] and (len(ids) == start or ids[-1]):
            row = self.rows(tuple(ids), 1.0, 1.0)[-1]
            kept = np.argsort(-row)[: 5 if "top_k" in self.faults else None]
            p = np.exp(row[kept]) / np.exp(row[kept]).sum()
            ids.append(int(kept[0] if body["temperature"] == 0 else random.choice(kept, p=p)))
        tokens = [f"token_id:{one}" for one in ids[start:]]
        if "strings" in self.faults:
            tokens = [self.shown(one) for one in ids[start:]]
        choice = {"index": 0, "finish_reason": "length" if ids[-1] else "stop"}
        choice["logprobs"] = {"tokens": tokens, "token_logprobs": [-1.0] * len(tokens)}
        return 200, {"object": "text_completion", "model": self.name, "choices": [choice]}

    def tokens_of(self, body):
        """Return the ids that /tokenize answers; None: the template is missing."""
        if "prompt" in body:
            ids = self.encode(body["prompt"])
            return ids if body.get("add_special_tokens", True) else ids[self.begins :]
        if not self.chats:
            return None
        said = "".join(f"{one['role']} : {one['content']} ;" for one in body["messages"])
        ids = self.encode(said.removesuffix(" ;"))
        if body.get("add_generation_prompt"):
            on = body.get("chat_template_kwargs", {}).get("enable_thinking", True)
            ids += self.encode(" ; assistant :")[self.begins :]
            return ids + self.encode("" if on else ";>.")[self.begins :]
        return ids + [0] * (not body.get("continue_final_message"))

    def entry(self, token, number, row, most):
        """Make what vLLM says of a token of the prompt."""
        order = [token, *np.argsort(-row)[:most]]
        return {
            str(one): {
                "logprob": number if one == token else float(row[one]),
                "rank": int((row > row[one]).sum()) + 1,
                "decoded_token": self.shown(int(one)),
            }
            for one in order
        }

    def listed(self, ids, numbers, tops, most):
        """Make the four lists of OpenAI's completions."""
        shown = [self.shown(token) for token in ids]
        held = []
        for token, number, row in zip(shown, numbers, tops, strict=True):
            top = {} if row is None else {
                self.shown(int(one)): float(row[one]) for one in np.argsort(-row)[:most]
            }  # fmt: skip
            held.append(None if number is None else top | {token: number})
        offsets = np.cumsum([0, *map(len, shown)])[:-1].tolist()
        if self.style == "llama-cpp-python":  # a character is there with the last of its tokens
            raw = [b"" if one == 0 else self.bytes_of(one) for one in ids]
            joined = [b"".join(raw[:place]) for place in range(len(raw))]
            offsets = [len(one.decode(errors="ignore")) for one in joined]
        numbers = {"token_logprobs": numbers, "top_logprobs": held, "text_offset": offsets}
        return {"tokens": shown, **numbers}


@lru_cache(None)
def load_model(folder):
    """Load a model once for all servers."""
    return GPT2LMHeadModel.from_pretrained(folder).eval()


class Server(ThreadingHTTPServer):
    """A server that many may connect to at once; clients may go before they are answered."""

    daemon_threads, request_queue_size = True, 128

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def byte_letters():
    """Return the byte that each letter of GPT-2's tokens stands for."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [one for one in range(256) if one not in plain]
    return {chr(one): one for one in plain} | {chr(256 + n): one for n, one in enumerate(others)}


BYTES = byte_letters()


class Handler(BaseHTTPRequestHandler):
    """Answers of a `FakeServer`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    fake: FakeServer

    def log_message(self, *_):
        pass

    def do_GET(self):
        fake = self.fake
        held = {"id": fake.name, "object": "model"}
        held |= {"max_model_len": fake.context} if fake.style == "vllm" else {}
        known = urlsplit(self.path).path == "/v1/models"
        self.reply(*((200, {"object": "list", "data": [held]}) if known else (404, {})))

    def do_POST(self):
        fake = self.fake
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if not content:  # the client is gone
            return
        body = json.loads(content)
        with fake.lock:
            fake.requests += 1
            fake.under_way += 1
            alone, ends = fake.under_way == 1, fake.requests > fake.lasts
        try:
            if ends:
                self.close_connection = True
                self.connection.close()
                return
            time.sleep(max(fake.latency, 0.01 * ("batch" in fake.faults)))
            alone &= fake.under_way == 1
            self.reply(*self.find(body, alone))
        finally:
            with fake.lock:
                fake.under_way -= 1

    def find(self, body, alone):
        fake, path = self.fake, urlsplit(self.path).path  # a proxy is sent whole addresses
        if fake.busy > fake.waited:
            fake.waited += 1
            return fake.refusal, {"error": {"message": "slow down"}}
        if path == "/tokenize" and fake.style == "vllm":
            ids = fake.tokens_of(body)
            if ids is None:
                return 400, {"error": {"message": "no chat template is set"}}
            return 200, {"tokens": ids, "count": len(ids), "max_model_len": fake.context}
        if path != "/v1/completions":
            return 404, {"detail": "Not Found"}
        if body.get("model") != fake.name:
            said = f"The model `{body.get('model')}` does not exist."
            return 404, {"error": {"message": said, "code": 404}}
        fake.asked.append(body)
        if body.get("return_tokens_as_token_ids"):
            return fake.write(body)
        return fake.answer(body, alone)

    def reply(self, status, found):
        fake = self.fake
        if fake.key and self.headers.get("Authorization") != f"Bearer {fake.key}":
            given = self.headers.get("Authorization", "")
            status, found = 401, {"error": {"message": f"Incorrect API key provided: {given}"}}
        content, kind = json.dumps(found).encode(), "application/json"
        if fake.pages:
            status, content, kind = 200, b"<!doctype html><p>Welcome</p>", "text/html"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

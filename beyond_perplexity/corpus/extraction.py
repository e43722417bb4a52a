"""The extraction of a corpus: streaming, parallel, in order; neither the corpus nor its redirects
are ever held in memory."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import signal
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mwparserfromhell.parser import ParserError
from tqdm import tqdm

from beyond_perplexity.corpus import formats, mediawiki, normalization, penn, readers, tables
from beyond_perplexity.corpus.extraction_options import ExtractionOptions
from beyond_perplexity.corpus.markup import MarkupError, Paragraph, normalize_title, parse_article
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.accounts import Account

BATCH_ITEMS = 1000
BATCH_CHARACTERS = 1 << 18

Triple = tuple[str, str, str]
Item = mediawiki.RawPage | readers.Record | readers.Annotated


class ItemBatch(NamedTuple):
    """Consecutive pages or records of one file."""

    first: int  # number of the first item in the whole corpus
    items: Sequence[Item]  # what to extract
    split: str | None  # the split that the file gives
    namespaces: frozenset[str]  # the wiki's namespaces; empty for other formats


class _Source(NamedTuple):
    """A text that waits to be cleaned, and what it is of: the number of a page or record."""

    item: int
    title: str
    place: str
    paragraph: Paragraph
    raw: str
    number: int = 0  # of the paragraph in its page


@dataclass
class Extracted:
    """What a worker made of one batch; lines for the sorter, and what else a page tells."""

    documents: list[tables.EncodedDocument] = field(default_factory=list)
    redirects: list[tuple[str, str]] = field(default_factory=list)
    triples: list[Triple] = field(default_factory=list)
    skips: readers.Skips = field(default_factory=readers.Skips)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Extractor:
    """The work on one batch, free of state, so that it can be sent to any process."""

    options: ExtractionOptions
    seed: int

    def __call__(self, batch: ItemBatch) -> Extracted:
        """Extract a batch of pages or records."""
        result = Extracted()
        sources: list[_Source] = []
        for number, item in enumerate(batch.items, batch.first):
            if isinstance(item, mediawiki.RawPage):
                sources += self._read_article(number, item, batch, result)
                continue
            result.counts["records"] += 1
            if isinstance(item, readers.Record):
                paragraph = Paragraph(item.text)
                sources.append(_Source(number, item.title, item.place, paragraph, item.as_it_is))
            else:
                result.counts.update(item.counts)
                raw = " ".join(item.tokens)
                source = _Source(number, item.title, item.place, Paragraph(raw), raw)
                tokens = clean_tokens(item.tokens, self.options.preprocessing)  # in place
                self._add(source, tokens, item.mentions, item.trees, batch.split, result)
        paragraphs, steps = [source.paragraph for source in sources], self.options.preprocessing
        result.counts.update(steps.cut_words(paragraph.text for paragraph in paragraphs))
        tokenized = mediawiki.tokenize(paragraphs, steps.apply)
        for source, (tokens, mentions) in zip(sources, tokenized, strict=True):
            self._add(source, tokens, mentions, (), batch.split, result)
        return result

    def _read_article(
        self, number: int, raw: mediawiki.RawPage, batch: ItemBatch, result: Extracted
    ) -> list[_Source]:
        """Parse an article, keep its triples, and return its paragraphs with all mentions."""
        page = _read_page(raw, result)
        if page is None:
            return []
        try:
            article = parse_article(page.text, batch.namespaces)
        except (ParserError, RecursionError, MarkupError) as error:
            reason = f"markup that cannot be parsed ({type(error).__name__})"
            known = isinstance(error, MarkupError)
            result.skips.add(str(error) if known else reason, raw.describe())
            return []
        result.counts["articles"] += 1
        result.counts["articles_with_infobox"] += article.infoboxes > 0
        title = normalize_title(page.title) or page.title
        result.triples += ((title, relation, target) for relation, target in article.triples)
        mediawiki.add_matches(page.title, article.paragraphs)
        own = (number, page.title, page.title)
        return [_Source(*own, p, p.text, index) for index, p in enumerate(article.paragraphs)]

    def _add(
        self,
        source: _Source,
        tokens: list[str],
        mentions: list[readers.Mention],
        trees: Iterable[tuple[int, str]],
        split: str | None,
        result: Extracted,
    ) -> None:
        """Encode a document, or count it where it is too short or too long."""
        limits = self.options.documents
        if len(tokens) < max(limits.minimum_tokens, 1):
            reason = "shorter than minimum_tokens" if tokens else "empty document"
            result.skips.add(reason, source.place)
            return
        if limits.maximum_tokens is not None and len(tokens) > limits.maximum_tokens:
            result.skips.add("longer than maximum_tokens", source.place)
            return
        result.counts.update(f"{mention[3]} found" for mention in source.paragraph.mentions)
        result.counts.update(f"{mention[3]} kept" for mention in mentions)
        text, steps = " ".join(tokens), self.options.preprocessing
        chosen = split or self.options.split.choose(source.title, source.paragraph.text)
        held = self._parse(tokens, source.place, result) or [
            (sentence, penn.replace_leaves(tree, clean_tokens(penn.leaves(tree), steps)))
            for sentence, tree in trees
        ]
        row = (chosen, source.title, text, len(tokens), source.raw, mentions, held)
        document = tables.Document(*row)
        result.documents.append(document.encode(self.seed, (source.item, source.number)))

    def _parse(self, tokens: list[str], place: str, result: Extracted) -> list[tuple[int, str]]:
        """Give the automatic trees of a document, none unless they are asked for."""
        options = self.options.trees
        if options.kind == "none":
            return []
        module = importlib.import_module(formats.PARSERS[options.kind].module)
        trees: list[tuple[int, str]]
        trees, left_out = module.parse_document(tokens, options.maximum_tokens)
        for reason, count in left_out.items():
            if count:
                result.skips.add(reason, place, count)
        return trees


def clean_tokens(tokens: Sequence[str], steps: normalization.Preprocessing) -> list[str]:
    """Lower-case tokens and remove their accents, as the steps say; one of accents alone stays."""
    text = "\n".join(tokens)
    if steps.lower_case:
        text = normalization.lower_case(text)
    if steps.remove_accents:
        text = normalization.remove_accents(text)
    return [new or old for new, old in zip(text.split("\n"), tokens, strict=True)]


def _read_page(raw: mediawiki.RawPage, result: Extracted) -> mediawiki.Page | None:
    """Parse a page; count it; return it when it is an article with text to read."""
    result.counts["pages"] += 1
    try:
        page = mediawiki.parse_page(raw)
    except mediawiki.PageError as error:
        result.skips.add(str(error), raw.describe())
        return None
    if page.namespace != 0:
        result.skips.add("page of another namespace", page.title)
    elif page.redirect is not None:
        target = normalize_title(page.redirect)
        result.counts["redirects"] += 1
        if target is None:
            result.skips.add("redirect out of the articles", page.title)
        else:
            result.redirects.append((normalize_title(page.title) or page.title, target))
    elif page.model != "wikitext":
        result.skips.add(f"page of content model {page.model}", page.title)
    else:
        return page
    return None


def _records(
    options: ExtractionOptions, path: Path, problems: readers.Problems
) -> Iterator[readers.Record]:
    row = formats.FORMATS[options.source.format]
    named = {"field": options.source.field} if row.named_fields else {}
    own, account = readers.Problems(problems.skip), Account(path, "documents")
    for record in row.load()(path, own, **named):
        account.read += 1
        yield record
    if own.held is not None:  # as of all but a damaged archive, which is among the skips
        readers.close_account(account, own)
    problems.skips.merge(own.skips)


def _take(items: Iterator[Item]) -> Iterator[Item]:
    """Take items of a stream until they are enough for a batch."""
    characters = 0
    for item in islice(items, BATCH_ITEMS):
        yield item
        if isinstance(item, readers.Annotated):
            characters += sum(map(len, item.tokens)) + len(item.tokens)
        else:
            characters += len(item.xml if isinstance(item, mediawiki.RawPage) else item.text)
        if characters >= BATCH_CHARACTERS:
            return


def _batches(
    options: ExtractionOptions, problems: readers.Problems, reader: readers.AnnotatedReader | None
) -> Iterator[ItemBatch]:
    """Cut the files of a corpus into batches of limited size."""
    row, first = formats.FORMATS[options.source.format], 0
    for name, split in options.source.files():
        path = readers.resolve_path(name)
        pages: Any = row.load()(path, problems) if row.kind == "pages" else None
        own = reader.read(path) if reader else _records(options, path, problems)
        items: Iterator[Item] = iter(pages or own)
        while held := list(_take(items)):
            yield ItemBatch(first, held, split, pages.namespaces if pages else frozenset())
            first += len(held)


def _map_ordered(
    extractor: Extractor, batches: Iterable[ItemBatch], workers: int
) -> Iterator[Extracted]:
    """Extract batches in parallel, give the results in order, hold a bounded number of them."""
    if workers == 1:
        yield from map(extractor, batches)
        return
    context = multiprocessing.get_context("spawn")
    # Ctrl-C reaches all processes of a terminal; the one that began the others ends them.
    ignored = signal.SIGINT, signal.SIG_IGN
    with ProcessPoolExecutor(workers, context, signal.signal, ignored) as pool:
        waiting: deque[Future[Extracted]] = deque()
        try:
            for batch in batches:
                waiting.append(pool.submit(extractor, batch))
                if len(waiting) > 4 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            wrong = "--workers: a process was killed, most likely for want of memory"
            raise InputError(f"{wrong}; give the job more, or fewer workers") from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def extract(
    options: ExtractionOptions,
    outputs: Mapping[str, Path],
    record: dict[str, object],
    *,
    seed: int,
    workers: int,
) -> dict[str, object]:
    """Extract a corpus to the `outputs`, ``report`` and those of `EXTRACTED`; all appear or none.

    Temporary files, about as large as the text, lie beside the documents; the tables do not depend
    on the number of `workers`. The report counts pages, articles, redirects, mentions by source,
    documents and tokens per split, and skips by reason with the first places. What cannot be read
    (see `SourceOptions.on_error`), or no document left, is an `InputError`.
    """
    beside = outputs["documents"].parent
    beside.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        held = tempfile.TemporaryDirectory(prefix=".extraction-", dir=beside)
        folder = Path(stack.enter_context(held))
        sorter = tables.DocumentSorter(folder, stack)
        redirects = stack.enter_context(mediawiki.Redirects(folder / "redirects.sqlite"))
        files = (folder / "triples.jsonl", folder / "aliases.jsonl")
        gathered = tables.Gathered(sorter, redirects, *files, readers.Skips())
        _gather(options, gathered, seed, workers)
        return tables.write_tables(options, outputs, record, gathered)


def _gather(options: ExtractionOptions, gathered: tables.Gathered, seed: int, workers: int) -> None:
    problems = readers.Problems(options.source.on_error == "skip", gathered.skips)
    row, reader = formats.FORMATS[options.source.format], None
    if row.kind == "annotated":
        reader = row.load()(options.source, problems)
    batches = _batches(options, problems, reader)
    results = _map_ordered(Extractor(options, seed), batches, workers)
    with (
        open(gathered.triples, "w", encoding="utf-8") as triples,
        open(gathered.aliases, "w", encoding="utf-8") as aliases,
        tqdm(mininterval=1, unit=" documents") as progress,
    ):
        for result in results:
            gathered.sorter.add(result.documents)
            gathered.redirects.add(result.redirects)
            triples.writelines(json.dumps(triple) + "\n" for triple in result.triples)
            gathered.skips.merge(result.skips)
            gathered.counts.update(result.counts)
            progress.update(len(result.documents))
        if reader:
            triples.writelines(json.dumps(triple) + "\n" for triple in reader.triples())
            aliases.writelines(json.dumps(alias) + "\n" for alias in reader.aliases())

# ruff: noqa: RUF001  words of other scripts
"""Detects questions without a question mark: models omit the mark, and Thai has none."""

from __future__ import annotations

import re

# Words that start a question and no other sentence of the language.
_STARTS = re.compile(
    r"(?:what|who|whom|whose|when|where|why|how|which|is|are|was|were|do|does|did|can|could|should|will|would|has|have|"
    r"wer|wen|wem|wessen|wann|wo|woher|wohin|warum|weshalb|wieso|wie|welche[mnrs]?|"  # German
    r"qui|quels?|quelles?|où|pourquoi|comment|combien|quién|qué|cuál|cuándo|cuánt[oa]s?|dónde|cómo|perché|quale|chi|"
    r"wat|wanneer|waarom|hoe|vad|vem|varför|hur|hvem|hvad|hvorfor|hvordan|"  # Dutch, Scandinavian
    r"кто|кого|кому|кем|что|чего|чем|когда|где|куда|откуда|почему|зачем|как|каков[аоы]?|как(?:ой|ая|ое|ие|им|ую)|"
    r"сколько|хто|що|коли|чому|скільки|ποιος|ποια|ποιο|τι|πότε|πού|γιατί|πώς|πόσ[αοη]\w*|"
    r"ما|ماذا|من|متى|أين|لماذا|كيف|كم|هل|أي|في أي|چه|چرا|کجا|چگونه|چند|آیا)\b",
    re.IGNORECASE,
)
# Words anywhere in a question.
_HAS = re.compile(
    r"什么|什麼|谁|誰|哪|几[个年次]|幾|多少|多久|多大|如何|怎|何时|何時|何地|何人|何种|何種|为何|為何|是否|[吗嗎呢か]\Z|どこ|いつ|なぜ|どう|どの|いくつ|いくら|"
    r"무엇|누가|누구|언제|어디|어떻게|어떤|까\Z|क्या|कौन|कब|कहाँ|कहां|क्यों|कैसे|कितन|किस|"
    r"อะไร|ใคร|ไหน|เมื่อไร|เมื่อไหร่|เมื่อใด|ทำไม|อย่างไร|ยังไง|กี่|เท่าไร|เท่าไหร่|เท่าใด|ใด|หรือไม่|ไหม|มั้ย|หรือเปล่า|ใช่หรือ|(?:คือ|ว่า)\Z|หรือว่า"
)
# A request for an answer instead of a question.
_REQUESTS = re.compile(
    r"(?:name|list|give|describe|explain) (?:a|an|one|some|the|two|three)\b|(?:nennen|beschreiben) Sie\b|"
    r"(?:назовите|приведите|перечислите|опишите)\b|(?:اذكر|أعط)|จงบอก|บอก",
    re.IGNORECASE,
)
_FULL_WIDTH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]\Z")
_ARABIC = re.compile(r"[\u0600-\u06ff]\Z")


def asks(text: str) -> bool:
    """Return whether a text without a final mark is worded like a question."""
    return _STARTS.match(text) is not None or _HAS.search(text) is not None


def requests(text: str) -> bool:
    """Return whether a text starts as a request for an answer."""
    return _REQUESTS.match(text) is not None


def question_mark(text: str) -> str:
    """Return the question mark of the script in which a text ends."""
    if _FULL_WIDTH.search(text):
        return "\uff1f"
    return "\u061f" if _ARABIC.search(text) else "?"

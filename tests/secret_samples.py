"""Secrets of thirty kinds, each plain and awkward, and ten thousand ordinary lines: what `redaction` is measured with.

All secrets are made up. Their beginnings are put together here, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LINES = 10_000
_HEX, _UPPER, _LOWER, _DIGITS = (
    "0123456789abcdef",
    "ABCDEFGHJKLMNPQRSTUVWXYZ",
    "abcdefghijkmnopqrstuvwxyz",
    "0123456789",
)
_ANY = _UPPER + _LOWER + _DIGITS


class Sample(NamedTuple):
    """A text and the pieces of it that must not be kept."""

    kind: str
    manner: str
    text: str
    pieces: tuple[str, ...]


def secrets() -> list[Sample]:  # noqa: PLR0915  # a table, row by row
    chance = random.Random(20)

    def run(alphabet: str, size: int) -> str:
        return "".join(chance.choices(alphabet, k=size))

    def wide(text: str) -> str:
        """The same in full-width letters, as East Asian keyboards write them."""
        return "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text)

    def split(text: str, letter: str = "\u200b") -> str:
        """The same with an invisible letter in it, as some pages put one into long words so that these may wrap."""
        return text[:6] + letter + text[6:11] + letter + text[11:]

    def coded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    found: list[Sample] = []

    def add(kind: str, plain: tuple[str, ...], awkward: tuple[str, ...]) -> None:
        for manner, (text, *pieces) in (("plain", plain), ("awkward", awkward)):
            found.append(Sample(kind, manner, text.replace("{}", pieces[0]), tuple(pieces)))

    aws, aws_two = "AK" + "IA" + run(_UPPER + "234567", 16), run(_ANY + "/+", 40)
    add(
        "AWS access key",
        ("The deploy user has the key {} in eu-west-1", aws),
        ("aws configure: second line is {} (first one you know)", aws_two),
    )
    github = ["gh" + "p_" + run(_ANY, 36) for _ in range(2)]
    add(
        "GitHub token",
        ("git clone https://{}@github.com/acme/shop.git", github[0]),
        ("The bot signs in with {} everywhere", split(github[1])),
    )
    gitlab = ["gl" + "pat-" + run(_ANY, 20) for _ in range(2)]
    add(
        "GitLab token",
        ("PRIVATE-TOKEN: {}", gitlab[0]),
        ("ＧｉｔＬａｂ：{}", wide(gitlab[1])),
    )
    slack = "xo" + "xb-" + run(_DIGITS, 11) + "-" + run(_ANY, 24)
    add(
        "Slack token",
        ("slack bot: {}", slack),
        (
            "alerts go to https://hooks.slack.com/services/{}",
            f"T0{run(_UPPER, 8)}/B0{run(_UPPER, 8)}/{run(_ANY, 24)}",
        ),
    )
    discord = [f"{coded(run(_DIGITS, 18))}.G{run(_ANY, 5)}.{run(_ANY + '-_', 38)}" for _ in range(2)]
    add(
        "Discord bot",
        ("client.run('{}')", discord[0]),
        ("the bot that greets people: {} :wave:", split(discord[1], "\u2060")),
    )
    telegram = [f"{run('123456789', 10)}:AA{run(_ANY + '-_', 33)}" for _ in range(2)]
    add(
        "Telegram bot",
        ("BotFather gave me {}", telegram[0]),
        ("curl https://api.telegram.org/bot{}/getMe", telegram[1]),
    )
    google = "AI" + "za" + run(_ANY + "-_", 35)
    add(
        "Google key",
        ("maps.js?key={}&callback=init", google),
        (
            '{"type": "service_account", "private_key": "-----BEGIN PRIVATE ' + 'KEY-----\\n{}\\n-----END"}',
            run(_ANY, 64),
        ),
    )
    add(
        "payment provider key",
        ("stripe.api_key = '{}'", "sk" + "_live_" + run(_ANY, 24)),
        ("Webhooks are checked with {} since May", "wh" + "sec_" + run(_ANY, 32)),
    )
    model = ["s" + "k-" + run(_ANY, 48), "s" + "k-proj-" + run(_ANY + "-_", 60)]
    add(
        "model provider key",
        ("export MODEL_KEY={}", model[0]),
        ("el modelo se llama con {} desde ayer", f"{model[1][:30]}\u00ad{model[1][30:]}"),
    )
    jwt = [f"ey{'J'}{run(_ANY, 30)}.eyJ{run(_ANY, 60)}.{run(_ANY + '-_', 43)}" for _ in range(2)]
    add(
        "JSON web token",
        ("Authorization: Bearer {}", jwt[0]),
        ("wss://live.example.org/feed/{}/room/7", jwt[1]),
    )
    ssh = run(_ANY + "+/", 64)
    add(
        "ssh key",
        (f"-----BEGIN OPENSSH PRIVATE {'KEY'}-----\n{{}}\n{run(_ANY, 30)}\n-----END OPENSSH PRIVATE KEY-----", ssh),
        (f"> -----BEGIN RSA PRIVATE {'KEY'}-----\r\n> {{}}\r\n> {run(_ANY, 20)}==", run(_ANY + "+/", 64)),
    )
    age = ["AGE-SECRET-" + "KEY-1" + run("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58) for _ in range(2)]
    add(
        "age key",
        ("# created: 2026-03-01\n{}", age[0]),
        ("sops 用の鍵は {} です", age[1].lower()),
    )
    add(
        "PGP key",
        (f"-----BEGIN PGP PRIVATE {'KEY'} BLOCK-----\n\n{{}}\n-----END PGP PRIVATE KEY BLOCK-----", run(_ANY, 64)),
        (f"-----BEGIN PGP PRIVATE {'KEY'} BLOCK-----\\nVersion: 4\\n\\n{{}}\\n", run(_ANY, 60)),
    )
    add(
        "address with a password",
        ("DATABASE_URL=postgres://shop:{}@db.example.org:5432/shop", "maple-syrup"),
        ("amqp://worker:{}@queue.example.org//jobs is the broker", "p%40ss/w0rd"),
    )
    add(
        "connection string",
        ("host=db.example.org user=shop password={} dbname=shop", "winterberry"),
        ("Server=tcp:db.example.org,1433;User ID=shop;Pwd={};Encrypt=yes", "Winterberry"),
    )
    add(
        "cookie",
        ("Set-Cookie: session={}; Path=/; HttpOnly", run(_HEX, 32)),
        ("curl -b 'PHPSESSID={}' https://shop.example.org/cart", run(_LOWER + _DIGITS, 26)),
    )
    add(
        "basic credentials",
        ("Authorization: Basic {}", coded("shop:maple-syrup")),
        ("curl -u shop:{} https://api.example.org", "syrup"),
    )
    add(
        "payment card",
        ("Book it on 4539 1488 0343 6467, it expires in May", "6467"),
        ("カードは{}です", wide("5500-0055-5555-5559")),
    )
    add(
        "bank account",
        ("Please pay to DE89 3704 0044 0532 0130 00 by Friday", "3704 0044 0532 0130 00"),
        ("iban:{}", split("GB29NWBK60161331926819")),
    )
    codes = [f"{run(_LOWER + _DIGITS, 5)}-{run(_LOWER + _DIGITS, 5)}" for _ in range(4)]
    numbers = [f"{run(_DIGITS, 4)} {run(_DIGITS, 4)}" for _ in range(3)]
    add(
        "recovery codes",
        ("Recovery codes: " + " ".join(codes), *codes),
        ("Codes de secours pour le compte :\n" + "\n".join(numbers), *numbers),
    )
    add(
        "seed phrase",
        ("the seed phrase is {}", "lamp orbit velvet cargo minor stone ladder puppy rural elegant mimic zebra"),
        ("Wallet backup words: 1. {}", "tower 2. magnet 3. coyote 4. hollow 5. ribbon 6. silk 7. dune 8. wagon"),
    )
    add(
        "TOTP seed",
        ("otpauth://totp/Shop:bob?secret={}&issuer=Shop", run("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32)),
        ("2FA setup key: {}", " ".join(run("abcdefghijklmnopqrstuvwxyz234567", 4) for _ in range(8))),
    )
    add(
        "PIN",
        ("the pin for the garage is {}", "4711"),
        ("Die PIN der Karte lautet {}, bitte merken", "80" + "13"),
    )
    add(
        "told in a sentence",
        ("the password for the wifi is {}.", "purple monkey"),
        ("For staging log in as bob with the pa\u200bssword {} please", "hunter" + "22"),
    )
    add(
        "told in another language",
        ("Das Passwort für den Server ist {}.", "Sommerwind"),
        ("пароль от сервера: {}", "сирень" + "1987"),
    )
    add(
        "in a program",
        ("    password: str = '{}'", "night-train"),
        ("echo {} | base64 -d > db.env", coded("DB_PASSWORD=glashaus\n")),
    )
    add(
        "on a command line",
        ("mysqldump -u root -p{} shop > dump.sql", "swordfish"),
        ("PGPASSWORD={} psql -h db.example.org shop", "sword" + "fish"),
    )
    add(
        "password file",
        ("machine api.example.org login shop password {}", "maplewood"),
        ("shop:{}:19700:0:99999:7:::", f"$6${run(_ANY, 12)}${run(_ANY + './', 86)}"),
    )
    account = coded(run(_ANY, 64))
    add(
        "cloud and cluster",
        ("AccountName=shop;AccountKey={};EndpointSuffix=core.windows.net", account),
        ("kind: Secret\ndata:\n  password: {}\n", coded("maple-syrup-42")),
    )
    add(
        "network key",
        ("[Interface]\nPrivateKey = {}\nAddress = 10.0.0.2/32", coded(run(_ANY, 32))),
        ("WIFI:S:guests;T:WPA;P:{};;", "open" + "sesame"),
    )
    return found


def ordinary() -> Iterator[str]:
    """Lines that hold no secret: our own pages, and sentences, settings, code and logs about the same things."""
    chance = random.Random(21)
    pages = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), *ROOT.glob("examples/*.py")])
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if line.strip()]
    yield from chance.sample(lines, LINES * 2 // 5)
    for _ in range(LINES * 3 // 5):
        yield chance.choice(_TEMPLATES).format_map(_Filler(chance))


class _Filler(dict[str, str]):
    """Fills each place of a template anew."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def __missing__(self, name: str) -> str:
        pick = self._chance.choice
        if name == "n":
            return str(self._chance.randrange(1, 90_000))
        if name.startswith("hex"):
            return "".join(self._chance.choices(_HEX, k=int(name[3:])))
        if name.startswith("base"):
            return "".join(self._chance.choices(_ANY + "+/", k=int(name[4:])))
        if name.startswith("digits"):
            return pick("123456789") + "".join(self._chance.choices(_DIGITS, k=int(name[6:]) - 1))
        return pick(_WORDS[name])


_WORDS: dict[str, list[str]] = {
    "who": ["alice", "bob", "the platform team", "carol", "our supplier", "Priya", "the on-call engineer", "Jürgen"],
    "thing": ["checkout", "billing", "search", "the importer", "login page", "report", "mobile app", "invoice mail"],
    "day": ["Monday", "Tuesday", "the first of May", "2026-04-30", "next week", "Q3", "yesterday"],
    "secretish": ["password", "token", "api key", "secret", "session id", "access token", "private key", "passphrase"],
    "state": [
        "too short",
        "not accepted by the server",
        "rotated every 90 days",
        "stored in the keychain",
        "missing from the config",
        "read from the environment",
        "expired",
        "checked before anything else",
        "hashed with argon2",
        "never logged",
        "optional on loopback",
        "the same for all regions",
        "required",
    ],
    "file": ["src/app/auth/TokenRefreshHandlerV2.py", "wiki/keys.md", "lib/session_store.rb", "cmd/login/main.go"],
    "func": ["get_token", "read_password_file", "loadCredentials", "issue_session_id", "verifySignature"],
    "type": ["str", "bytes", "Optional[str]", "string", "SecretStr", "[]byte"],
    "verb": ["deploys", "restarts", "fails", "passes", "needs a review", "takes three minutes"],
    "city": ["Lisbon", "Osaka", "Graz", "Nairobi", "Montréal"],
}

_TEMPLATES = [
    "{who} decided that {thing} {verb} on {day}",
    "We moved {thing} from {city} to {city} on {day}; ask {who} about the rest.",
    "the {secretish} is {state}",
    "The {secretish} for {thing} was {state}, so {who} looked into it",
    "Our {secretish}s are {state}.",
    "If the {secretish} is {state}, {thing} answers 401 and {who} gets a mail.",
    "{who} asked whether the {secretish} should be {state}",
    "Never commit a {secretish}; {who} reads them from the environment.",
    "{secretish}: {state}",
    "Passwords need at least {n} characters, a digit and a sign",
    "def {func}(path: {type}, timeout: float = 2.5) -> {type}:",
    "    token = {func}(request.headers)",
    "    password: {type}",
    "    password = os.environ['DB_PASSWORD']",
    "    self._token = token",
    "    api_key=settings.api_key,",
    "    if token is None: raise Unauthorized({n})",
    "password = getpass.getpass()",
    "secret_name: {thing}-credentials",
    "  token_file: /run/secrets/hub-token",
    "  password: ${{DB_PASSWORD}}",
    "  tokens: {n}",
    '"max_tokens": {n}, "temperature": 0.2',
    "prompt_tokens={n} completion_tokens={n} total={n}",
    "usage: serve [--token-file FILE] [--port N] [--password-stdin]",
    "  --api-key KEY     key of the service, read from the environment by default",
    "see {file}, line {n}",
    "{file}:{n}: warning: unused variable tokenIndex",
    "commit {hex40} fixed {thing}",
    '      "integrity": "sha512-{base86}==",',
    "fixed in {hex7} by {who}, see #{n}",
    "sha256:{hex64} is the digest of the image",
    "the record {hex8}-{hex4}-7{hex3}-a{hex3}-{hex12} was merged",
    "request_id={hex32} status=200 took={n}ms",
    "trace {hex32} span {hex16} {thing}",
    "GET /v1/items/{hex24}?page={n}&sort=name 200",
    "https://github.com/acme/shop/blob/{hex40}/{file}#L{n}",
    "https://example.org/docs/keys?page={n}#tokens",
    "https://{city}.example.org:{digits4}/health answers in {n} ms",
    "ssh deploy@10.0.{n}.7 -p {digits4}",
    "docker run -u 1000:1000 -p {digits4}:{digits4} shop:{hex7}",
    "psql -h localhost -p {digits4} -U shop",
    "call {who} at +49 30 {digits4} {digits4} before {day}",
    "Order {digits12} was shipped on {day}, parcel {digits10}",
    "invoice no. 2026-{digits6} over 1,{digits3}.00 EUR",
    "ISBN 978-3-16-{digits6}-0, page {n}",
    "the run took {n}.{digits6} s on {day}, {digits13} ns in total",
    "[2026-11-{digits2} 10:{digits2}:00] INFO {thing} started, pid {digits5}",
    "error {digits5} in {func}: session expired after {n} s",
    "the key of the dictionary is the file's name, the value is {who}",
    "press any key to go on; the escape key ends it",
    "the key point for {who} is that {thing} {verb}",
    "{who} passes the exam on {day}; the pass is in the drawer",
    "a pin in the map marks {city}; pin this thread, {who}",
    "recovery of {thing} took {n} minutes, codes {digits3} and {digits3} were logged",
    "The cookie banner is gone from {thing}",
    "cookie consent: asked once per visitor",
    "The bearer of this ticket may enter in {city}",
    "Das Passwort muss {n} Zeichen lang sein",
    "{who} hat das Passwort am Montag geändert",
    "Le mot de passe est obligatoire pour {thing}",
    "La contraseña se cambia cada {n} días",
    "пароль меняется каждые {n} дней",
    "パスワードは{n}日ごとに変えます",
    "密码必须每{n}天更换一次",
    "Le code postal de {city} est {digits5}",
    "the wifi in {city} is slow on {day}",
    "seed the database with {n} rows; the random seed is {n}",
    "numpy.random.seed({n})",
    "the mnemonic of that instruction is mov",
    "version 2.{n}.{n} of {thing} needs Python 3.{n}",
    "user {who}, login on {day}, {n} failures",
    "login page: {state}",
    "credentials: see the vault, folder {thing}",
    "@pytest.mark.parametrize('token', ['', 'a', None])",
    "assert redact(text).count == {n}",
    "class {func}Error(ValueError): pass",
    "import {{ {func} }} from '@acme/auth-session'",
    "CREATE TABLE session (id TEXT PRIMARY KEY, token_hash BLOB NOT NULL)",
    "SELECT count(*) FROM api_key WHERE revoked_at IS NULL AND owner = {n}",
    "export PATH=$HOME/.local/bin:$PATH",
    "export AWS_PROFILE=staging AWS_REGION=eu-west-1",
    "kubectl get secret shop-db -o yaml | less",
    "vault kv get secret/shop/{thing}",
    "Host: api.example.org\\r\\nAuthorization: Bearer <token>",
    "curl -H 'Authorization: Bearer $TOKEN' https://api.example.org/v{n}",
    "git+ssh://git@github.com/acme/shop.git@v{n}",
    "mailto:bob@example.org, ftp://ftp.example.org/pub/{file}",
    "SGVsbG8= is hello in base64",
    "the colour #{hex6} on #{hex6}, opacity 0.{n}",
    "IPv6 2001:db8:{hex4}:{hex4}::1, MAC 00:1a:{hex2}:{hex2}:{hex2}:01",
    "lat 52.{digits6}, lon 13.{digits6}",
    "TestTokenBucketRefillsAfterPauseOf{n}Seconds passed",
    "app_session_token_refresh_interval_seconds = {n}",
    "{who}: the passphrase of that riddle is never told",
]

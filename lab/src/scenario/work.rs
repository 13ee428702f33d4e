//! Thirty steps of a believable coding session: what a healthy agent's calls look like.

/// What the user asked for.
pub const TASK: &str =
    "Invoices show the wrong total when a discount code is applied. Find out why, fix it and add a test.";

/// Tool, arguments as JSON, result.
pub const STEPS: [(&str, &str, &str); 30] = [
    ("run", r#"{"command":"git status --short"}"#, "nothing to commit, working tree clean"),
    (
        "search",
        r#"{"pattern":"discount","path":"src"}"#,
        "src/invoice/total.py: def apply_discount(lines, code):\nsrc/cart/views.py: discount = request.POST.get('code')\nsrc/models.py: class DiscountCode(Model):",
    ),
    (
        "read_file",
        r#"{"path":"src/invoice/total.py","lines":"1-60"}"#,
        "from decimal import Decimal\n\ndef subtotal(lines):\n    return sum(line.price * line.quantity for line in lines)\n\ndef apply_discount(lines, code):\n    rate = code.rate if code else 0\n    return subtotal(lines) * (1 - rate)",
    ),
    (
        "read_file",
        r#"{"path":"src/models.py","lines":"100-140"}"#,
        "class DiscountCode(Model):\n    code = CharField(max_length=16, unique=True)\n    percent = IntegerField(help_text='whole percent, 1 to 100')\n    valid_until = DateField(null=True)",
    ),
    (
        "search",
        r#"{"pattern":"\\.rate\\b","path":"src"}"#,
        "src/invoice/total.py: rate = code.rate if code else 0\nsrc/shipping/zones.py: return zone.rate * weight",
    ),
    (
        "run",
        r#"{"command":"git log --oneline -5 -- src/models.py"}"#,
        "a41f09c store discounts as whole percent\n77be210 validity period for discount codes\n19c3d5e first version of the shop models",
    ),
    (
        "run",
        r#"{"command":"git show a41f09c --stat"}"#,
        "src/models.py | 4 ++--\nsrc/migrations/0031_percent.py | 22 +++++++++\n2 files changed: the invoice module was not touched",
    ),
    (
        "read_file",
        r#"{"path":"src/migrations/0031_percent.py"}"#,
        "def forwards(apps, editor):\n    for code in apps.get_model('shop', 'DiscountCode').objects.all():\n        code.percent = int(code.rate * 100)\n        code.save()",
    ),
    ("search", r#"{"pattern":"apply_discount","path":"tests"}"#, "no matches found in 41 files"),
    (
        "read_file",
        r#"{"path":"tests/test_invoice.py","lines":"1-45"}"#,
        "import pytest\nfrom shop.invoice import total\n\n@pytest.fixture\ndef lines():\n    return [Line(price=Decimal('9.90'), quantity=2), Line(price=Decimal('4.50'), quantity=1)]",
    ),
    (
        "run",
        r#"{"command":"pytest tests/test_invoice.py -q"}"#,
        "......                                  [100%]\n6 passed in 0.84s",
    ),
    (
        "edit_file",
        r#"{"path":"tests/test_invoice.py","append":"def test_discount_is_percent(lines): ..."}"#,
        "appended 7 lines to tests/test_invoice.py",
    ),
    (
        "run",
        r#"{"command":"pytest tests/test_invoice.py -q -k discount"}"#,
        "F\nAttributeError: 'DiscountCode' object has no attribute 'rate'\n1 failed, 6 deselected",
    ),
    (
        "edit_file",
        r#"{"path":"src/invoice/total.py","old":"code.rate if code else 0","new":"Decimal(code.percent) / 100 if code else 0"}"#,
        "replaced one occurrence on line 7 of total.py",
    ),
    (
        "run",
        r#"{"command":"pytest tests/test_invoice.py -q --lf"}"#,
        "F\nassert Decimal('21.8700') == Decimal('21.87')\nthe product is not rounded to cents",
    ),
    (
        "fetch",
        r#"{"url":"http://docs.internal/accounting/rounding"}"#,
        "Accounting rules, section four: every amount shown to a customer is rounded half up, once, after all rebates.",
    ),
    (
        "search",
        r#"{"pattern":"ROUND_HALF","path":"."}"#,
        "src/tax/vat.py: from decimal import ROUND_HALF_UP\nsrc/tax/vat.py: CENT = Decimal('0.01')",
    ),
    (
        "read_file",
        r#"{"path":"src/tax/vat.py","lines":"1-30"}"#,
        "CENT = Decimal('0.01')\n\ndef to_cents(amount):\n    \"\"\"Round as the accountants do.\"\"\"\n    return amount.quantize(CENT, ROUND_HALF_UP)",
    ),
    (
        "edit_file",
        r#"{"path":"src/invoice/total.py","old":"return subtotal(lines) * (1 - rate)","new":"return to_cents(subtotal(lines) * (1 - rate))"}"#,
        "replaced one occurrence on line 8; the name to_cents is not imported in this module",
    ),
    (
        "edit_file",
        r#"{"path":"src/invoice/total.py","old":"from decimal import Decimal","new":"from decimal import Decimal\nfrom shop.tax.vat import to_cents"}"#,
        "import added at the top, two lines changed",
    ),
    (
        "run",
        r#"{"command":"pytest tests/test_invoice.py -q"}"#,
        ".......                                 [100%]\n7 passed in 0.91s",
    ),
    (
        "run",
        r#"{"command":"pytest -q"}"#,
        "E   ImportError: cannot import name 'to_cents' (circular import through shop.tax.__init__)\n3 errors during collection",
    ),
    (
        "read_file",
        r#"{"path":"src/tax/__init__.py"}"#,
        "from shop.invoice.total import subtotal\nfrom .vat import vat_for\n__all__ = ['vat_for', 'taxable']",
    ),
    (
        "search",
        r#"{"pattern":"taxable\\(","path":"src"}"#,
        "src/reports/yearly.py: amount = taxable(order)\nsrc/tax/__init__.py: def taxable(order):",
    ),
    (
        "edit_file",
        r#"{"path":"src/tax/__init__.py","old":"from shop.invoice.total import subtotal","new":""}"#,
        "removed the import; one use of subtotal remains inside taxable",
    ),
    (
        "edit_file",
        r#"{"path":"src/tax/__init__.py","old":"def taxable(order):","new":"def taxable(order):\n    from shop.invoice.total import subtotal"}"#,
        "moved the import into the function body",
    ),
    (
        "run",
        r#"{"command":"pytest -q --maxfail=1"}"#,
        "........................................ [100%]\n212 passed, 3 skipped in 48.20s",
    ),
    (
        "run",
        r#"{"command":"ruff check src tests"}"#,
        "src/tax/__init__.py: E303 too many blank lines\nFound 1 error, fixable with --fix",
    ),
    (
        "run",
        r#"{"command":"ruff check --fix src tests && ruff format --check ."}"#,
        "1 fixed, 0 remaining. 118 files already formatted",
    ),
    (
        "run",
        r#"{"command":"git commit -am 'invoice: discounts are whole percent, rounded once'"}"#,
        "[main 5be03d7] invoice: discounts are whole percent, rounded once\n 3 files changed, 14 insertions(+), 4 deletions(-)",
    ),
];

"""The page of `openmps web` in Chromium: charts move, the timeline zooms, a client is ended by its
button, widths from 360 to 2560 pixels, light and dark, nothing on the console."""

import shutil
import time

# Long enough for a machine whose processors the programs share with the browser.
PAGE_SECONDS_MAX = 120
SIZES = [(360, 740), (768, 1024), (1280, 900), (1920, 1080), (2560, 1440)]


def launch(playwright):
    """The system's Chromium."""
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])


def contrast_of(page):
    """The least contrast of texts against what is behind them."""
    return page.evaluate("""() => {
        // A canvas reads any colour that a style sheet has.
        const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const rgb = text => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = text; pen.fillRect(0, 0, 1, 1); return [...pen.getImageData(0, 0, 1, 1).data]; };
        const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
            .reduce((sum, c, at) => sum + c * [.2126, .7152, .0722][at], 0);
        let least = [99, ""];
        for (const element of document.querySelectorAll("body *")) {
            const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
            if (!own || !element.checkVisibility() || element.closest("dialog, .skip, #tip")) continue;
            let back = element;
            while (back && rgb(getComputedStyle(back).backgroundColor)[3] < 255) back = back.parentElement;
            const [a, b] = [getComputedStyle(element).color, getComputedStyle(back || document.body).backgroundColor].map(c => light(rgb(c)));
            const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
            if (ratio < least[0]) least = [ratio, element.outerHTML.slice(0, 80)];
        }
        return least;
    }""")


def wait_for_updates(page, more):
    """Returns when the first chart has been updated `more` times again."""
    updates = "document.querySelector('canvas.chart')?.dataset.updates"
    for _ in range(more):
        # Another number, not a higher one: the chart of a device whose server did not answer once is a new one.
        page.wait_for_function(f"before => {updates} && {updates} !== before", arg=page.evaluate(updates))


def press_until(page, button, found):
    """Presses a button until what it asks for is there: in one stretch no kernel may end, or a server not answer."""
    end = time.monotonic() + PAGE_SECONDS_MAX
    while True:
        page.click(button)
        page.wait_for_function("button => !document.querySelector(button).disabled", arg=button)
        if page.evaluate(found):
            return
        assert time.monotonic() < end, f"{button}: not within {PAGE_SECONDS_MAX} s: {found}"


def record(page):
    press_until(page, "#record", "+document.querySelector('#timeline').dataset.records > 0")


def look(page):
    press_until(page, "#advise", "document.querySelector('#advice li') !== null")


def check(url, screenshots):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
        errors = []

        def is_error(message):
            # What the daemon does not answer in time is asked again.
            return message.type in ("error", "warning") and "502 (Bad Gateway)" not in message.text

        def opened(**options):
            page = browser.new_page(viewport={"width": 1280, "height": 900}, **options)
            page.set_default_timeout(1000 * PAGE_SECONDS_MAX)
            page.on("console", lambda m: errors.append(m.text) if is_error(m) else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(url)
            page.locator("canvas.chart").first.wait_for()
            page.locator("#rows tr[id]").first.wait_for()
            return page

        # First as it is served; then without its policy, which forbids what waits for functions.
        opened().close()
        page = opened(bypass_csp=True)
        wait_for_updates(page, 2)
        record(page)
        page.wait_for_selector("#kernels tr")
        span = "(d => d.to - d.from)(document.querySelector('#timeline').dataset)"
        whole = page.evaluate(span)
        zoomed = lambda: page.wait_for_function(f"whole => {span} < 0.9 * whole", arg=whole)
        page.click("#in")
        zoomed()
        page.focus("#timeline")
        page.keyboard.press("-")
        # Times are doubles, ns since the machine's start: a span that comes back is rounded.
        page.wait_for_function(f"whole => Math.abs({span} / whole - 1) < 1e-6", arg=whole)
        page.hover("#timeline", position={"x": 700, "y": 60})
        page.mouse.wheel(0, -100)
        zoomed()
        page.keyboard.press("0")
        page.click("#words summary")
        page.wait_for_selector("#tracks tr")
        page.click("#words summary")
        look(page)
        page.mouse.move(2, 2)
        if screenshots:
            take(page, screenshots)
        for scheme in ["light", "dark"]:
            page.emulate_media(color_scheme=scheme)
            ratio, what = contrast_of(page)
            assert ratio >= 4.5, f"{scheme}: a contrast of {ratio:.2f}: {what}"
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_function("width => innerWidth === width", arg=width)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"the page is {wide} wide at {width}"
        page.set_viewport_size({"width": 1280, "height": 900})
        ended = page.locator("#rows tr[id]").first.get_attribute("id")
        page.locator("#rows button").first.click()
        page.click("#no")
        # By then one that was ended is listed no more.
        wait_for_updates(page, 3)
        page.locator(f"#{ended}").wait_for()
        page.locator("#rows button").first.click()
        page.click("#yes")
        # It is written when the daemon has answered, and stays while further events come.
        page.wait_for_function("document.querySelector('#done').innerText !== ''")
        page.locator(f"#{ended}").wait_for(state="detached")
        wait_for_updates(page, 1)
        assert page.locator("#done").inner_text().startswith("Ended "), page.locator("#done").inner_text()
        assert not errors, errors
        browser.close()
    print("browser: charts move, the timeline zooms, a client was ended, contrast and widths are right, "
          "nothing on the console")


def take(page, directory):
    directory.mkdir(parents=True, exist_ok=True)
    page.evaluate("document.activeElement.blur()")
    for name, scheme, width, height in [("web-light", "light", 1280, 900), ("web-dark", "dark", 1280, 900),
                                        ("web-narrow", "light", 360, 740), ("web-wide", "dark", 2560, 1440)]:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(400)
        page.screenshot(path=directory / f"{name}.png", full_page=True)

"""The page of `openmps web` in Chromium: charts move, the timeline zooms, a client is ended by its
button, widths from 360 to 2560 pixels, light and dark, nothing on the console."""

import shutil

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
    updates = "+document.querySelector('canvas.chart').dataset.updates"
    page.wait_for_function(f"least => {updates} >= least", arg=page.evaluate(updates) + more)


def check(url, screenshots):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
        errors = []

        def opened(**options):
            page = browser.new_page(viewport={"width": 1280, "height": 900}, **options)
            page.set_default_timeout(1000 * PAGE_SECONDS_MAX)
            page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(url)
            page.locator("canvas.chart").first.wait_for()
            page.locator("#rows tr[id]").first.wait_for()
            return page

        # First as it is served; then without its policy, which forbids what waits for functions.
        opened().close()
        page = opened(bypass_csp=True)
        wait_for_updates(page, 2)
        page.click("#record")
        page.wait_for_function("+document.querySelector('#timeline').dataset.records > 0")
        span = lambda: page.evaluate("(d => d.to - d.from)(document.querySelector('#timeline').dataset)")
        whole = span()
        page.click("#in")
        assert span() < whole, "the timeline does not zoom"
        page.focus("#timeline")
        page.keyboard.press("-")
        assert span() == whole, "keys do not zoom"
        page.hover("#timeline", position={"x": 700, "y": 60})
        page.mouse.wheel(0, -100)
        page.wait_for_function("whole => (d => d.to - d.from)(document.querySelector('#timeline').dataset) < whole", arg=whole)
        page.keyboard.press("0")
        page.click("#words summary")
        page.wait_for_selector("#tracks tr")
        page.click("#words summary")
        page.click("#advise")
        page.wait_for_selector("#advice li")
        page.mouse.move(2, 2)
        if screenshots:
            take(page, screenshots)
        for scheme in ["light", "dark"]:
            page.emulate_media(color_scheme=scheme)
            ratio, what = contrast_of(page)
            assert ratio >= 4.5, f"{scheme}: a contrast of {ratio:.2f}: {what}"
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"the page is {wide} wide at {width}"
        page.set_viewport_size({"width": 1280, "height": 900})
        ended = page.locator("#rows tr[id]").first.get_attribute("id")
        page.locator("#rows button").first.click()
        page.click("#no")
        assert page.locator(f"#{ended}").count() == 1, "a client was ended though it was not confirmed"
        page.locator("#rows button").first.click()
        page.click("#yes")
        page.locator(f"#{ended}").wait_for(state="detached")
        # It stays while further events come.
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

/**
 * A real Chromium for tests, which Playwright controls and which shows no window. If no Chromium is installed, browser
 * tests are skipped with the reason, unless services are required. `SIBYL_TEST_BROWSER` can name the program to use.
 */

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

/** The headless shell comes first: it has no browser window, and takes less CPU time than the other programs. */
const PLACES = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]
/**
 * Chromium features to disable. The first ones are suggestions of the address bar, which load two pages before the
 * test's page. The flag replaces Playwright's own `--disable-features` flag, so the other features are those that
 * Playwright disables.
 */
const ABSENT = [
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  'AimEnabled',
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsFirstBalancedModeAutoEnable',
  'HttpsUpgrades',
  'LensOverlay',
  'MediaRouter',
  'NetworkTimeServiceQuerying',
  'OptimizationHints',
  'PaintHolding',
  'PreconnectToSearch',
  'ThirdPartyStoragePartitioning',
]
const FLAGS = [
  `--disable-features=${ABSENT.join()}`,
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]
/** Reduces the resolution to a quarter and turns animations off, because nobody looks at the screen. */
const CHEAP = { deviceScaleFactor: 0.25, reducedMotion: 'reduce' } as const
/** Maximum wait, as in `eventually`: only a failing test waits this long. */
const TIMEOUT_MS = 120_000

export const MISSING_BROWSER = 'no Chromium on this machine; SIBYL_TEST_BROWSER can name one'

/** Returns the path of the browser's program; undefined if there is none. */
export function findBrowser(): string | undefined {
  const named = process.env.SIBYL_TEST_BROWSER
  return (named === undefined ? PLACES : [named]).find((place) => existsSync(place))
}

/** Starts a browser that its caller closes. */
export async function openBrowser(): Promise<Browser> {
  const executablePath = findBrowser()
  if (executablePath === undefined) throw new Error(MISSING_BROWSER)
  return await chromium.launch({ executablePath, args: FLAGS })
}

export type PageOptions = BrowserContextOptions & {
  /** A script that runs in the page before the page's own code. */
  readonly before?: string
  /**
   * Matches console messages that do not fail the test. The browser writes them about an answer that the test provokes.
   */
  readonly expected?: RegExp
}

/**
 * Opens pages, each for a separate visitor. The test that opened a page fails on errors of the page's code, and on
 * violations of its content security policy.
 */
export function createVisitors(browser: Browser) {
  return async function visit(t: TestContext, url: string, options: PageOptions = {}) {
    const { before, expected, ...rest } = options
    const context = await browser.newContext({ ...CHEAP, ...rest })
    context.setDefaultTimeout(TIMEOUT_MS)
    const page = await context.newPage()
    const complaints: string[] = []
    page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)))
    page.on('console', (message) => {
      if (message.type() !== 'error' && message.type() !== 'warning') return
      const text = `${message.text()} (${message.location().url})`
      if (expected?.test(text) !== true) complaints.push(text)
    })
    if (before !== undefined) await page.addInitScript({ content: before })
    t.after(async () => {
      await context.close()
      assert.deepEqual(complaints, [], 'the page has nothing to complain about')
    })
    await page.goto(url)
    return page
  }
}

export type Visit = ReturnType<typeof createVisitors>

/**
 * Returns by how many pixels the page is wider than its window. On a phone, any overflow would shrink the whole page.
 */
export async function overflowOf(page: Page): Promise<number> {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth)
  return wide - (page.viewportSize()?.width ?? 0)
}

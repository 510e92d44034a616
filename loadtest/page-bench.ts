/**
 * `npm run bench -- page`: measures the market view in a headless Chromium while its book of 1,000 levels changes 100
 * times a second. Compares the frames per second with those of an empty page, and with a minimum of 55. Also measures
 * the growth of the heap over `--minutes` (default 1; 10 for a long run), the bytes of the first view, and the time
 * until the first view is shown.
 */

import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import type { Browser, CDPSession, Page } from 'playwright-core'
import { createClient } from '#client/client.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { findBrowser, MISSING_BROWSER, openBrowser } from '../test/support/browser.ts'
import { openExchange } from '../test/support/exchange.ts'
import { progress, quick, report } from './bench.ts'
import { createPageFlow } from './page-flow.ts'

const FRAMES_MIN = 55
const FIRST_VIEW_BYTES_MAX = 130_000
/** Maximum growth of the heap during the measurement. It is not 0, because caches fill in the first minute. */
const HEAP_GROWTH_BYTES_MAX = 4_000_000
/** Minimum number of redraws per second, because a page that draws nothing also has a high frame rate. */
const DRAWN_MIN = 10
const LEVELS = 1_000
const CHANGES_PER_SECOND = 100
const QUICK_SECONDS = 8
const EMPTY_SECONDS = 3
const WARM_SECONDS = 5

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, quick: { type: 'boolean' } },
})
const seconds = quick ? QUICK_SECONDS : Math.max(1, Math.round(Number(values.minutes) * 60))

if (findBrowser() === undefined) {
  process.stdout.write(`page: nothing was measured, there is ${MISSING_BROWSER}\n`)
} else {
  await main()
}

async function main(): Promise<void> {
  const environment = { SIBYL_LOG_LEVEL: 'error', SIBYL_STREAM_MESSAGES_PER_SECOND: '1000' }
  const exchange = await openExchange({ devnet: true, environment })
  const browser = await openBrowser()
  const client = createClient({ url: exchange.url })
  const stream = client.stream()
  try {
    const { chains } = await client.config()
    const [market] = await client.markets()
    const [chain] = chains
    if (chain === undefined || market === undefined)
      throw new Error('the exchange has no chain or no market')
    const verifyingContract = toAddress(chain.contracts.settlement)
    const marketId = market.id as MarketId
    const flow = createPageFlow(stream, marketId, { chainId: chain.chainId, verifyingContract })
    progress('page: fills the book')
    await flow.fill(LEVELS)
    await watch({ browser, url: exchange.url, marketId, stream, flow })
  } finally {
    stream.close()
    await browser.close()
    await exchange.dispose()
  }
}

type Watched = {
  readonly browser: Browser
  readonly url: string
  readonly marketId: MarketId
  readonly stream: ReturnType<ReturnType<typeof createClient>['stream']>
  readonly flow: ReturnType<typeof createPageFlow>
}

async function watch({ browser, url, marketId, stream, flow }: Watched): Promise<void> {
  progress('page: the first view')
  const first = await firstView(browser, url)
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } })
  const said: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error') said.push(message.text())
  })
  page.on('pageerror', (error) => said.push(error.message))
  await page.goto('about:blank')
  const empty = await frames(page, EMPTY_SECONDS)
  const devtools = await page.context().newCDPSession(page)
  await page.goto(`${url}/#/m/${marketId}`)
  await page.waitForSelector('.ladder-bid')
  let deltas = 0
  const book = stream.book({ marketId, outcome: 'YES' }, ({ type }) => {
    if (type === 'book.delta') deltas++
  })
  await book.ready
  const stop = flow.start(CHANGES_PER_SECOND)
  try {
    await page.waitForTimeout(WARM_SECONDS * 1_000)
    const heapBefore = await heap(devtools)
    const busyBefore = await busySeconds(devtools)
    deltas = 0
    progress(`page: watches for ${seconds} s`)
    const seen = await frames(page, seconds)
    const rate = deltas / seconds
    const busy = ((await busySeconds(devtools)) - busyBefore) / seconds
    const growth = (await heap(devtools)) - heapBefore
    progress('')
    process.stdout.write(
      `the book changed ${rate.toFixed(0)} times a second on ${LEVELS} levels, for ${seconds} s\n` +
        `frames/s: ${seen.perSecond.toFixed(1)}, an empty page ${empty.perSecond.toFixed(1)}; the longest ` +
        `took ${seen.longestMs.toFixed(0)} ms, ${seen.slow} more than 50 ms; the ladder was drawn ` +
        `${seen.drawnPerSecond.toFixed(1)} times a second\n` +
        `the page's main thread computed ${(busy * 100).toFixed(0)} % of the time; more than the frames, ` +
        `this stays the same where the machine does other things\n` +
        `heap after a collection: ${(growth / 1e6).toFixed(2)} MB more than at the beginning (at most ` +
        `${HEAP_GROWTH_BYTES_MAX / 1e6} MB)\n` +
        `first view: ${(first.bytes / 1e3).toFixed(1)} kB gzip (at most ${FIRST_VIEW_BYTES_MAX / 1e3} kB), ` +
        `there after ${first.ms.toFixed(0)} ms\n` +
        said.map((text) => `the page complained: ${text}\n`).join(''),
    )
    const isFlat = growth <= HEAP_GROWTH_BYTES_MAX
    if (seen.drawnPerSecond < DRAWN_MIN)
      throw new Error('the page drew too few changes of the book per second')
    if (!isFlat || first.bytes > FIRST_VIEW_BYTES_MAX || said.length > 0) process.exitCode = 1
    report({
      bench: 'page',
      figure: Math.round(seen.perSecond * 10) / 10,
      unit: `frames/s, ${LEVELS} levels, ${CHANGES_PER_SECOND} changes/s`,
      peer: 'the least of frames that looks smooth',
      peerFigure: FRAMES_MIN,
      ratio: Math.round((seen.perSecond / FRAMES_MIN) * 1_000) / 1_000,
      bar: 1,
    })
  } finally {
    stop()
    book.close()
  }
}

/**
 * Loads the list of markets in a browser without a cache. Before that, the page is requested once, so that the server
 * has built it.
 */
async function firstView(browser: Browser, url: string): Promise<{ bytes: number; ms: number }> {
  await (await fetch(url)).text()
  const context = await browser.newContext()
  const page = await context.newPage()
  const bodies: Promise<Buffer>[] = []
  page.on('response', (response) => {
    const { pathname } = new URL(response.url())
    if (pathname === '/' || pathname.startsWith('/assets/')) bodies.push(response.body())
  })
  const begunMs = performance.now()
  await page.goto(url)
  await page.waitForSelector('main table tbody tr')
  const ms = performance.now() - begunMs
  const sizes = (await Promise.all(bodies)).map((body) => gzipSync(body).length)
  await context.close()
  return { bytes: sizes.reduce((sum, size) => sum + size, 0), ms }
}

type Frames = {
  readonly perSecond: number
  readonly longestMs: number
  readonly slow: number
  /** Frames per second in which the ladder was drawn again. */
  readonly drawnPerSecond: number
}

/**
 * Counts frames in the page by the page's own clock, because the timestamp of a frame is rounded to the rate of the
 * screen.
 */
async function frames(page: Page, forSeconds: number): Promise<Frames> {
  const gaps = await page.evaluate(
    (ms) =>
      new Promise<Record<'count' | 'longest' | 'slow' | 'drawn' | 'ms', number>>((resolve) => {
        let count = 0
        let longest = 0
        let slow = 0
        let begun = 0
        let last = 0
        let drawn = 0
        const ladder = document.querySelector('.ladder-rows')
        const observer = new MutationObserver(() => drawn++)
        const what = { subtree: true, childList: true, characterData: true, attributes: true }
        if (ladder !== null) observer.observe(ladder, what)
        const next = () => {
          const now = performance.now()
          if (begun === 0) begun = now
          else {
            count++
            longest = Math.max(longest, now - last)
            if (now - last > 50) slow++
          }
          last = now
          if (now - begun < ms) requestAnimationFrame(next)
          else {
            observer.disconnect()
            resolve({ count, longest, slow, drawn, ms: now - begun })
          }
        }
        requestAnimationFrame(next)
      }),
    forSeconds * 1_000,
  )
  return {
    perSecond: (gaps.count / gaps.ms) * 1_000,
    longestMs: gaps.longest,
    slow: gaps.slow,
    drawnPerSecond: (gaps.drawn / gaps.ms) * 1_000,
  }
}

async function heap(devtools: CDPSession): Promise<number> {
  await devtools.send('HeapProfiler.collectGarbage')
  const { usedSize } = await devtools.send('Runtime.getHeapUsage')
  return usedSize
}

/** Returns the CPU time of the main thread so far, without the time in which it waited. */
async function busySeconds(devtools: CDPSession): Promise<number> {
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const { metrics } = await devtools.send('Performance.getMetrics')
  return metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN
}

/** The page of a load test, in a real browser. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import type { AxeResults } from 'axe-core'
import { reportHtml } from '../../loadtest/report-html.ts'
import { findBrowser, MISSING_BROWSER, openBrowser, overflowOf } from '../support/browser.ts'
import { sampleReport } from './sample-report.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

test('no bar starts left of its axis', () => {
  const html = reportHtml(sampleReport())
  const lefts = [...html.matchAll(/<rect x="([\d.-]+)"[^>]* width="([\d.]+)"/g)]
  assert(lefts.length >= 30)
  const axis = Number(/class="grid" x1="(\d+)"/.exec(html)?.[1])
  const end = Number(/class="grid" x1="\d+" x2="(\d+)"/.exec(html)?.[1])
  for (const [, x, width] of lefts) {
    assert(Number(x) >= axis, `a bar at ${x}, the axis at ${axis}`)
    assert(Number(x) + Number(width) <= end + 0.2)
  }
})

test('failures on chain are red, and unchecked figures are not marked as true', () => {
  const html = reportHtml(sampleReport())
  assert.match(html, /<td class="failed">wrong<\/td><td>no trade failed on chain/)
  assert.match(html, /<td class="skipped">not checked<\/td><td>trades add up/)
})

test('the report page fits a phone and is readable in light and dark mode', async (t) => {
  if (findBrowser() === undefined) return t.skip(MISSING_BROWSER)
  const browser = await openBrowser()
  t.after(() => browser.close())
  for (const colorScheme of ['light', 'dark'] as const) {
    const context = await browser.newContext({
      viewport: { width: 390, height: 844 },
      colorScheme,
    })
    const page = await context.newPage()
    await page.setContent(reportHtml({ ...sampleReport(), ended: 'why'.repeat(100) }))
    assert.equal(await overflowOf(page), 0, `${colorScheme}: as wide as the window`)
    await page.evaluate(AXE)
    const found = await page.evaluate(() => {
      const { axe } = globalThis as unknown as { axe: { run(): Promise<AxeResults> } }
      return axe.run()
    })
    const wrong = found.violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    )
    assert.deepEqual(
      wrong.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`),
      [],
      colorScheme,
    )
    await context.close()
  }
})

/** The page of a load test. `web/browser/page.test.ts` shows it in a browser. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reportHtml } from '../../loadtest/report-html.ts'
import { sampleReport } from './sample-report.ts'

test('every bar in the report page lies within the chart’s axis', () => {
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

test('the load test report marks wrong figures as failed, and unchecked figures as not checked', () => {
  const html = reportHtml(sampleReport())
  assert.match(html, /<td class="failed">wrong<\/td><td>no trade failed on chain/)
  assert.match(html, /<td class="skipped">not checked<\/td><td>trades add up/)
})

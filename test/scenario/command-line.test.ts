/** The command `sibyl` and the examples on a devnet. One exchange serves all, because its start takes longest. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tryCcxt } from '../ccxt/try-ccxt.ts'
import { callSibyl } from '../cli/call-sibyl.ts'
import { tryCommands } from '../cli/try-commands.ts'
import { tryConformance } from '../cli/try-conformance.ts'
import { tryExamples } from '../cli/try-examples.ts'
import { tryMcp } from '../cli/try-mcp.ts'
import { tryOpenapiExample } from '../cli/try-openapi-example.ts'
import { startExchange } from '../support/exchange.ts'

test('the command line and the examples work with an exchange', async (t) => {
  const exchange = await startExchange(t, { devnet: true })
  await t.test('the example of an order in the document is accepted as it stands', () =>
    tryOpenapiExample(exchange),
  )
  await t.test('the exchange passes the contract checks', (subtest) =>
    tryConformance(subtest, exchange),
  )
  await t.test('the tools of sibyl mcp work', (subtest) => tryMcp(subtest, exchange))
  await t.test('the ccxt exchange class works', (subtest) => tryCcxt(subtest, exchange))
  // They move time, by some hours and then by days.
  await t.test('the examples run', (subtest) => tryExamples(subtest, exchange))
  await t.test('the commands run', (subtest) => tryCommands(subtest, exchange))
  await t.test('the contract checks still pass after time was moved', async () => {
    const line = ['conformance', '--url', exchange.url, '--account', '13']
    const { code, out } = await callSibyl(line)
    assert.equal(code, 0, out)
  })
})

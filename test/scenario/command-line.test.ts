/** Tests the command `sibyl` and the examples on one devnet, because starting a devnet takes most of the time. */

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

test('the command line, its tools and the examples run against an exchange', async (t) => {
  const exchange = await startExchange(t, { devnet: true })
  await t.test('the example of an order in the API document is accepted unchanged', () =>
    tryOpenapiExample(exchange),
  )
  await t.test('the exchange passes the conformance check', (subtest) =>
    tryConformance(subtest, exchange),
  )
  await t.test(
    'the server sibyl mcp offers its tools on a running exchange, with and without a key',
    (subtest) => tryMcp(subtest, exchange),
  )
  await t.test(
    'the ccxt exchange class reads, trades and streams on a running exchange',
    (subtest) => tryCcxt(subtest, exchange),
  )
  // The tests from here on move the chain's time: the examples by hours, and then the commands by days.
  await t.test('the programs in the folder examples run', (subtest) =>
    tryExamples(subtest, exchange),
  )
  await t.test('the commands of the sibyl command line run against an exchange', (subtest) =>
    tryCommands(subtest, exchange),
  )
  await t.test(
    'the conformance check still passes after the clock of the exchange was moved',
    async () => {
      const line = ['conformance', '--url', exchange.url, '--account', '13']
      const { code, out } = await callSibyl(line)
      assert.equal(code, 0, out)
    },
  )
})

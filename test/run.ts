/**
 * `npm test [-- files or folders]` runs all tests, or the given ones. `npm run test:fast` leaves out tests that need a
 * browser, a chain, an exchange, a simulation, another process or a database server. Some tests sweep over many cases:
 * `npm run test:whole` runs all cases, and the other commands run a sample.
 */

import { parseArgs } from 'node:util'
import { endWithHelp } from './support/help.ts'
import { runTests } from './support/run-tests.ts'
import { selectTests } from './support/select-tests.ts'

endWithHelp(`Runs the tests.

  npm test [-- files or folders]   all of them, or those
  npm run test:fast                what needs no chain, exchange, browser, simulation, other process or database server
  npm run test:whole               all of the sweeps that the others only sample
`)
const { values, positionals } = parseArgs({
  options: {
    fast: { type: 'boolean', default: false },
    whole: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
if (values.whole) process.env.TEST_WHOLE = '1'
const { passed } = await runTests(selectTests(positionals, values), values)
if (!passed) process.exitCode = 1

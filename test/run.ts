/**
 * `npm test [-- files or folders]` runs every test, or those. `npm run test:fast` leaves out what needs
 * a chain, an exchange, another process or a database server.
 */

import { parseArgs } from 'node:util'
import { runTests } from './support/run-tests.ts'
import { selectTests } from './support/select-tests.ts'

const { values, positionals } = parseArgs({
  options: { fast: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const { passed } = await runTests(selectTests(positionals, values), values)
if (!passed) process.exitCode = 1

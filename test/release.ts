/**
 * `npm run release -- --check`: whether what lies here could be tagged as the version of package.json, line by line.
 * Ends with 1 where something is in the way. It changes nothing.
 */

import { fileURLToPath } from 'node:url'
import { endWithHelp } from './support/help.ts'
import { releaseChecks } from './support/release-checks.ts'

const HELP = `Says whether what is committed here could be tagged as the version of package.json.

  npm run release -- --check   looks, says line by line what holds, and ends with 1 where something does not

It changes nothing. A version is made by hand: the new number in package.json and package-lock.json, the
same with its date on top of CHANGELOG.md, a commit, this check, npm run check, and git tag v<version>.
`

endWithHelp(HELP)
const args = process.argv.slice(2)
if (args.join() !== '--check') {
  process.stderr.write(`release: --check is all that there is to ask for; --help says more\n`)
  process.exitCode = 2
} else {
  const checks = releaseChecks(fileURLToPath(new URL('..', import.meta.url)))
  for (const { name, wrong, skipped } of checks) {
    const state = skipped !== undefined ? 'left out' : wrong === '' ? 'yes' : 'NO'
    const why = skipped ?? wrong
    process.stdout.write(`${state.padEnd(8)}  ${name}${why === '' ? '' : `: ${why}`}\n`)
  }
  if (checks.some(({ wrong }) => wrong !== '')) process.exitCode = 1
}

/**
 * `npm run release -- --check`: checks whether the committed files could be tagged as the version of package.json.
 * Prints one line per check, and exits with 1 if a check fails. It changes nothing.
 */

import { fileURLToPath } from 'node:url'
import { endWithHelp } from './support/help.ts'
import { releaseChecks } from './support/release-checks.ts'

const HELP = `Checks whether the committed files could be tagged as the version of package.json.

  npm run release -- --check   prints each check with its result, and exits with 1 if one fails

It changes nothing. A version is made by hand: the new number in package.json and package-lock.json, the
same with its date on top of CHANGELOG.md, a commit, this check, npm run check, and git tag v<version>.
`

endWithHelp(HELP)
const args = process.argv.slice(2)
if (args.join() !== '--check') {
  process.stderr.write(`release: the only option is --check; see --help\n`)
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

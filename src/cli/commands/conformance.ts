/** `sibyl conformance`: checks any server against the description of the API, with one line per check. */

import { SibylError } from '#client/sibyl-error.ts'
import { signerAddress } from '#client/sign-order.ts'
import { DEVNET_CHAIN_ID } from '#devnet/accounts.ts'
import { CommandError } from '#devnet/command.ts'
import { command, SIGN_OPTIONS } from '../command.ts'
import { type CheckResult, runChecks } from '../conformance/run-checks.ts'
import { makeWorld } from '../conformance/world.ts'
import { isTraderNamed, keyOf, readerOf, urlOf } from '../connect.ts'
import { showJson } from '../show.ts'

const MARKS = { ok: 'ok     ', failed: 'FAILED ', skipped: 'skipped' } as const

export const conformance = command({
  name: 'conformance',
  takes: '',
  about: 'checks a server against the contract of the API, and reports the result of each check',
  more:
    'Without a trader, the command only reads. With --key-file, or --account on a local chain, it also places\n' +
    'orders at the lowest price, cancels them, and registers an API key that it revokes. The exit code is\n' +
    '1 if a check fails.',
  options: {
    only: {
      value: '<names>',
      help: 'runs only checks whose names begin with one of these texts, such as markets,stream.book',
    },
    ...SIGN_OPTIONS,
  },
  async run({ values, io }) {
    const url = urlOf(values, io)
    // If the server is unreachable, this request fails before the checks run, so the error is reported only once.
    const config = await readerOf(values, io).config().catch(unlessAway)
    const onDevnet = config?.chains?.some(({ chainId }) => chainId === DEVNET_CHAIN_ID) === true
    const key = isTraderNamed(values) ? keyOf(values, io, onDevnet) : undefined
    const address = key === undefined ? undefined : await signerAddress(key)
    const chainId = values['chain-id'] === undefined ? undefined : Number(values['chain-id'])
    const only = values.only?.split(',').filter((name) => name !== '') ?? []
    const world = makeWorld({ url, key, address, chainId })
    const results: CheckResult[] = []
    try {
      for await (const result of runChecks(world, { only, signal: io.signal })) {
        results.push(result)
        if (!values.json) io.out(lineOf(result))
      }
    } finally {
      await world.trader?.revoke()
    }
    if (results.length === 0)
      throw new CommandError(`no check has a name that begins with ${only.join(' or ')}`)
    const count = (what: CheckResult['result']) =>
      results.filter(({ result }) => result === what).length
    const counts = { ok: count('ok'), failed: count('failed'), skipped: count('skipped') }
    if (values.json) io.out(showJson({ url, ...counts, results }, 2))
    else io.out(`${counts.ok} ok, ${counts.failed} failed, ${counts.skipped} skipped\n`)
    return counts.failed === 0 ? 0 : 1
  },
})

/**
 * Ignores an error response of the server, because the checks report it. Rethrows the error if the server cannot be
 * reached.
 */
function unlessAway(error: unknown): undefined {
  if (error instanceof SibylError && error.code !== 'NETWORK') return undefined
  throw error
}

function lineOf({ id, says, result, why }: CheckResult): string {
  const line = `${MARKS[result]}  ${id.padEnd(26)} ${says}\n`
  return why === undefined
    ? line
    : `${line}         ${result === 'failed' ? why : `because ${why}`}\n`
}

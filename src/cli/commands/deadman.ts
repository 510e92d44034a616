/** `sibyl deadman`: cancels all orders of the trader unless the command is repeated within the given seconds. */

import { CommandError, readInteger } from '#devnet/command.ts'
import { command, SIGN_OPTIONS } from '../command.ts'
import { traderOf } from '../connect.ts'
import { showJson } from '../show.ts'

const SECONDS_MAX = 86_400

export const deadman = command({
  name: 'deadman',
  takes: '<seconds>',
  about:
    "cancels all of the trader's orders after the given seconds, unless the command is repeated in time; 0 turns the dead-man switch off",
  more: 'The command needs an API key of the trader: create the key with sibyl keys create.',
  options: SIGN_OPTIONS,
  async run({ values, positionals: [seconds = ''], io }) {
    const afterMs = 1_000 * readInteger('seconds', seconds, 0, SECONDS_MAX)
    const { client, hasToken } = await traderOf(values, io)
    if (!hasToken) {
      throw new CommandError(
        'a dead-man switch needs an API key: create one with sibyl keys create',
      )
    }
    const answer = await client.orders.deadman(afterMs)
    if (values.json) io.out(showJson(answer, 2))
    else if (answer.cancelsAtMs === undefined) io.out('off\n')
    else io.out(`orders are cancelled at ${new Date(answer.cancelsAtMs).toISOString()}\n`)
    return 0
  },
})

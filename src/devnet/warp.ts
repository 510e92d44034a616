/** `npm run devnet:warp -- --seconds N`: moves the time of the local chain and of the exchange. */

import { createClient } from '#client/client.ts'
import { httpBatch } from './batch-sender.ts'
import { CommandError, localChain, readInteger, runCommand, sleep, URL_OPTION } from './command.ts'

const YEAR_SEC = 31_536_000
/** How long the exchange may take to follow. */
const FOLLOW_MS = 10_000
const POLL_MS = 20

await runCommand({
  call: 'npm run devnet:warp --',
  about:
    'Moves the clocks of the local chain and of the exchange forward together. Markets and orders\n' +
    'whose time has come expire, dispute windows end. Time never goes back.',
  options: {
    seconds: { value: '<n>', help: 'by how much' },
    url: URL_OPTION,
  },
  async run({ seconds, url }) {
    const bySec = readInteger('seconds', seconds, 1, YEAR_SEC)
    const client = createClient({ url, retries: 0 })
    const { rpcUrl } = await localChain(client)
    const { serverTime: before } = await client.config({ fresh: true })
    const [, , block] = await httpBatch(rpcUrl)([
      { method: 'evm_increaseTime', params: [bySec] },
      { method: 'evm_mine', params: [] },
      { method: 'eth_getBlockByNumber', params: ['latest', false] },
    ]).catch((error: unknown) => {
      throw new CommandError(`the chain at ${rpcUrl} does not answer: ${String(error)}`)
    })
    const chainSec = Number((block as { timestamp: string }).timestamp)
    const giveUpMs = Date.now() + FOLLOW_MS
    for (;;) {
      const { serverTime } = await client.config({ fresh: true })
      if (serverTime >= before + bySec) break
      if (Date.now() > giveUpMs) {
        throw new CommandError('the chain has moved, but the exchange does not follow')
      }
      await sleep(POLL_MS)
    }
    process.stdout.write(`it is ${new Date(chainSec * 1_000).toISOString()} now\n`)
  },
})

/**
 * `npm run cluster`: an exchange of several nodes on this machine, to see what happens when one fails. It
 * runs until Ctrl-C. Run the commands that control it, such as `status`, in a second terminal.
 */

import { parseArgs } from 'node:util'
import { OptionError, readInteger } from '../command.ts'

const HELP = `An exchange of several nodes on this machine, with NATS, MariaDB and a local chain.

  npm run cluster                     starts the cluster until Ctrl-C; the next start deletes its data
  npm run cluster -- status           shows which node serves which partitions and roles, and which links are cut
  npm run cluster -- kill NODE        ends the node as a power failure would
  npm run cluster -- drain NODE       the node hands over its partitions and roles, then ends
  npm run cluster -- start NODE       starts a node that was killed or drained
  npm run cluster -- cut NODE         silently cuts the links of the node to NATS and the database
  npm run cluster -- mend NODE        restores the links of the node
  npm run cluster -- add KIND         adds a node: front, market or rest

  --fronts <n>      number of fronts (2)
  --markets <n>     number of market nodes (2)
  --galera          three database servers instead of one
  --port <n>        port of the first front; the other nodes use the ports after it (8080)
  --folder <path>   folder with the data of the cluster (data/cluster)
`

const say = (line: string): void => void process.stdout.write(`${line}\n`)

try {
  const { values, positionals } = read()
  if (values.help) process.stdout.write(HELP)
  else if (positionals.length > 0) {
    const { sendCommand } = await import('./control.ts')
    process.stdout.write(await sendCommand(values.folder, positionals))
  } else await run(values)
} catch (error) {
  process.stderr.write(`sibyl: ${error instanceof Error ? error.message.split('\n')[0] : error}\n`)
  process.exitCode = error instanceof OptionError ? 2 : 1
}

type Values = ReturnType<typeof read>['values']

function read() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        galera: { type: 'boolean', default: false },
        fronts: { type: 'string', default: '2' },
        markets: { type: 'string', default: '2' },
        port: { type: 'string', default: '8080' },
        folder: { type: 'string', default: 'data/cluster' },
      },
    })
  } catch (error) {
    throw new OptionError(error instanceof Error ? error.message : String(error))
  }
}

/** Runs a cluster until Ctrl-C. Loads the cluster's code only here, so that the help appears without delay. */
async function run(values: Values): Promise<void> {
  const { openCluster } = await import('./open-cluster.ts')
  const { serveControl } = await import('./control.ts')
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  const cluster = await openCluster({
    folder: values.folder,
    port: readInteger('port', values.port, 1, 65_000),
    fronts: readInteger('fronts', values.fronts, 1, 8),
    markets: readInteger('markets', values.markets, 1, 8),
    galera: values.galera,
    say,
  })
  const control = await serveControl(values.folder, cluster)
  const fronts = [...cluster.nodes.values()].filter(({ kind }) => kind === 'front')
  say(await firstTrade(fronts[0]!.url, (fronts[1] ?? fronts[0])!.url))
  if (!stop.signal.aborted) {
    await new Promise((resolve) => stop.signal.addEventListener('abort', resolve))
  }
  say('ending the nodes')
  control.close()
  await cluster.dispose()
}

/**
 * Returns a script that the user can copy into a terminal. The script makes a trade between two traders at different
 * fronts.
 */
async function firstTrade(one: string, other: string): Promise<string> {
  const { DEMO_TRADERS, devnetKey } = await import('../accounts.ts')
  const [ann, bob] = DEMO_TRADERS
  const client = (url: string, index: number) =>
    `createClient({ url: '${url}', signer: '${devnetKey(index)}' })`
  return `
  A first trade, to copy into another terminal in this folder:

npx node --input-type=module -e "
import { createClient } from '#client/client.ts'
const ann = ${client(one, ann)}
const bob = ${client(other, bob)}
const [market] = await ann.markets()
const terms = { marketId: market.id, outcome: 'YES', price: '0.42', ttlSeconds: 3600 }
await ann.orders.place({ ...terms, side: 'sell', size: '10' })
await bob.orders.place({ ...terms, side: 'buy', size: '4' })
console.log(market.question, await ann.trades(market.id))
"

  Then kill a market node (npm run cluster -- kill market-1) and trade again.
`
}

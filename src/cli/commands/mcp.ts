/** `sibyl mcp`: a Model Context Protocol server for programs that use tools. */

import { randomBytes } from 'node:crypto'
import { readAmount } from '#client/amount.ts'
import type { Delegate } from '#client/delegates.ts'
import { signerAddress } from '#client/sign-order.ts'
import { CommandError, OptionError, readInteger } from '#devnet/command.ts'
import { API_VERSION } from '#domain/api-version.ts'
import { type CommandIo, command, URL_OPTION } from '../command.ts'
import { readerOf, traderOf } from '../connect.ts'
import { loadSdk } from '../mcp/sdk.ts'
import {
  type CallLog,
  makeCaller,
  makeMcpServer,
  type ServerParts,
  serveHttp,
} from '../mcp/server.ts'
import { makeStdioTransport } from '../mcp/stdio.ts'
import { readTools, type TradingLimits, tradeTools } from '../mcp/tools.ts'
import { showAmount, showTime } from '../show.ts'

const PORT_MAX = 65_535
const TOKEN_BYTES = 24

export const mcp = command({
  name: 'mcp',
  takes: '',
  about: 'serves tools by the Model Context Protocol, over standard input and output or HTTP',
  more:
    'Without --key-file it only reads. With --key-file and --for, orders are only checked and not placed, unless --live is\n' +
    'given too. The exchange enforces the limits of the delegation; this command enforces --max-size and --max-notional.\n' +
    'It logs each call as a line of JSON on standard error.',
  options: {
    url: URL_OPTION,
    'key-file': {
      value: '<path>',
      help: 'a file with the private key of a delegate; adds trading tools',
    },
    for: { value: '<address>', help: 'the account that appointed the delegate' },
    'chain-id': { value: '<id>', help: 'the chain, if the exchange has several' },
    live: {
      help: 'lets the trading tools place and cancel orders; without it, they only check orders',
    },
    'max-size': { value: '<shares>', help: 'maximum size of an order', default: '10' },
    'max-notional': {
      value: '<dollars>',
      help: 'maximum total loss of all orders of this run',
      default: '100',
    },
    http: {
      value: '<port>',
      help: 'port on 127.0.0.1 for streamable HTTP, which replaces standard input and output; 0 chooses a free port',
    },
  },
  async run({ values, io }) {
    const file = values['key-file']
    if (values.live && file === undefined) throw new OptionError('--live needs --key-file')
    const limits: TradingLimits = {
      sizeMax: Number(readAmount('max-size', values['max-size'])),
      notionalMax: Number(readAmount('max-notional', values['max-notional'])),
      isLive: values.live,
    }
    const sdk = await loadSdk()
    const trader =
      file === undefined ? undefined : await delegateOf({ ...values, account: undefined }, io)
    const client = trader?.client ?? readerOf(values, io)
    const tools = [
      ...readTools(client, trader?.address),
      ...(trader === undefined ? [] : tradeTools(client, limits)),
    ]
    const parts: ServerParts = {
      ...{ sdk, tools, version: API_VERSION },
      call: makeCaller(tools, callLog(io), trader?.signer),
      instructions: trader === undefined ? READS_ONLY : instructionsOf(trader, limits),
    }
    if (values.http !== undefined) {
      const port = readInteger('http', values.http, 0, PORT_MAX)
      const token = randomBytes(TOKEN_BYTES).toString('hex')
      const bound = await serveHttp(parts, { port, token, signal: io.signal })
      io.err(`send requests to http://127.0.0.1:${bound}/ with Authorization: Bearer ${token}\n`)
      await new Promise<void>((resolve) => io.signal.addEventListener('abort', () => resolve()))
      return 0
    }
    const server = makeMcpServer(parts)
    const closed = new Promise<void>((resolve) => {
      server.onclose = resolve
      io.signal.addEventListener('abort', () => resolve())
    })
    await server.connect(makeStdioTransport(sdk, { input: process.stdin, output: process.stdout }))
    await closed
    await server.close()
    return 0
  },
})

const READS_ONLY = 'Reads a prediction-market exchange. There is no key, so nothing can be traded.'
const CREATE_OPTIONS = '--days 7 --max-size 100 --max-notional 500'

type Delegated = Awaited<ReturnType<typeof traderOf>> & { readonly delegation: Delegate }

/**
 * Returns the account that `--for` names, with the key of its delegate. Throws if the key is the account's own. A
 * prompt can mislead the program that uses the key, and the exchange enforces limits only for delegates.
 */
async function delegateOf(
  values: Parameters<typeof traderOf>[0],
  io: CommandIo,
): Promise<Delegated> {
  if (values.for === undefined) {
    throw new OptionError(
      '--for is missing: the command sibyl mcp trades with the key of a delegate only. Make a new key, and appoint it as a delegate: sibyl delegate create ' +
        `<address of the new key> ${CREATE_OPTIONS} --key-file <key of the account>; then start sibyl mcp ` +
        'with the file of the new key as --key-file, and the account as --for',
    )
  }
  const trader = await traderOf(values, io)
  const own = await signerAddress(trader.signer)
  const create = `sibyl delegate create ${own} ${CREATE_OPTIONS} --key-file <key of ${trader.address}>`
  if (own.toLowerCase() === trader.address.toLowerCase()) {
    throw new CommandError(
      '--key-file: this key belongs to the account itself, but sibyl mcp needs the key of a delegate. Make a new key, and appoint it as a delegate: ' +
        create.replace(own, '<address of the new key>'),
    )
  }
  const delegation = (await trader.client.delegates.list()).find(
    ({ delegate, active }) => active && delegate.toLowerCase() === own.toLowerCase(),
  )
  if (delegation === undefined) {
    throw new CommandError(`${own} is not a delegate of ${trader.address}. Appoint it: ${create}`)
  }
  if (delegation.maxOrderSize === 0 || delegation.maxOpenNotional === 0) {
    throw new CommandError(
      `the delegation of ${own} must limit orders with --max-size and --max-notional. Change it: ${create}`,
    )
  }
  return { ...trader, delegation }
}

function instructionsOf({ address, delegation }: Delegated, limits: TradingLimits): string {
  const { until, maxOrderSize, maxOpenNotional, markets } = delegation
  const { sizeMax, notionalMax, isLive } = limits
  return [
    `Trades for ${address} with the key of a delegate, until ${showTime(until)} UTC.`,
    `The exchange refuses an order of more than ${showAmount(maxOrderSize)} shares. All open ` +
      `orders of the delegate may be worth at most ${showAmount(maxOpenNotional)} dollars in ` +
      'total.',
    ...(markets.length === 0
      ? []
      : [`Orders are allowed only in these markets: ${markets.join(', ')}.`]),
    `This server refuses an order of more than ${showAmount(sizeMax)} shares. All orders of this ` +
      `run may lose at most ${showAmount(notionalMax)} dollars in total.`,
    isLive ? 'Orders are placed.' : 'It is a dry run: orders are checked and not placed.',
  ].join(' ')
}

function callLog({ err }: CommandIo): CallLog {
  return (line) => err(`${JSON.stringify({ at: new Date().toISOString(), ...line })}\n`)
}

/** `sibyl mcp`: a Model Context Protocol server for programs that use tools. */

import { randomBytes } from 'node:crypto'
import { readAmount } from '#client/amount.ts'
import { OptionError, readInteger } from '#devnet/command.ts'
import { API_VERSION } from '#domain/api-version.ts'
import { type CommandIo, command, URL_OPTION } from '../command.ts'
import { readerOf, traderOf } from '../connect.ts'
import { loadSdk } from '../mcp/sdk.ts'
import { type CallLog, makeMcpServer, serveHttp } from '../mcp/server.ts'
import { readTools, type TradingLimits, tradeTools } from '../mcp/tools.ts'

const PORT_MAX = 65_535
const TOKEN_BYTES = 24

export const mcp = command({
  name: 'mcp',
  takes: '',
  about: 'serves tools by the Model Context Protocol, over standard input and output or HTTP',
  more:
    'Without --key-file it only reads. With it, orders are checked and not placed unless --live is given too, and ' +
    'never above --max-size and --max-notional. Each call is one line of JSON on the standard error.',
  options: {
    url: URL_OPTION,
    'key-file': {
      value: '<path>',
      help: "a file with the trader's private key; adds trading tools",
    },
    'chain-id': { value: '<id>', help: 'which chain, where the exchange has several' },
    live: { help: 'places and cancels orders; without it trading tools only check' },
    'max-size': { value: '<shares>', help: 'the largest order', default: '10' },
    'max-notional': {
      value: '<dollars>',
      help: 'the most that all orders of this run may cost together',
      default: '100',
    },
    http: { value: '<port>', help: 'serves streamable HTTP on 127.0.0.1; 0 chooses a port' },
  },
  async run({ values, io }) {
    const file = values['key-file']
    if (values.live && file === undefined) throw new OptionError('--live goes with --key-file')
    const limits: TradingLimits = {
      sizeMax: Number(readAmount('max-size', values['max-size'])),
      notionalMax: Number(readAmount('max-notional', values['max-notional'])),
      isLive: values.live,
    }
    const sdk = await loadSdk()
    const trader =
      file === undefined ? undefined : await traderOf({ ...values, account: undefined }, io)
    const client = trader?.client ?? readerOf(values, io)
    const tools = [
      ...readTools(client, trader?.address),
      ...(trader === undefined ? [] : tradeTools(client, limits)),
    ]
    const parts = { sdk, tools, log: callLog(io), version: API_VERSION }
    if (values.http !== undefined) {
      const port = readInteger('http', values.http, 0, PORT_MAX)
      const token = randomBytes(TOKEN_BYTES).toString('hex')
      const bound = await serveHttp(parts, { port, token, signal: io.signal })
      io.err(`http://127.0.0.1:${bound}/ with Authorization: Bearer ${token}\n`)
      await new Promise<void>((resolve) => io.signal.addEventListener('abort', () => resolve()))
      return 0
    }
    const server = makeMcpServer(parts)
    const closed = new Promise<void>((resolve) => {
      server.onclose = resolve
      process.stdin.once('end', resolve)
      io.signal.addEventListener('abort', () => resolve())
    })
    await server.connect(new sdk.StdioServerTransport())
    await closed
    await server.close()
    return 0
  },
})

function callLog({ err }: CommandIo): CallLog {
  return (line) => err(`${JSON.stringify({ at: new Date().toISOString(), ...line })}\n`)
}

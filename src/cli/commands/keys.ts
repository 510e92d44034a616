/** `sibyl keys`: API keys of the trader's wallet, for exchanges that require tokens. */

import { registerApiKey, revokeApiKeyByWallet } from '#client/api-keys.ts'
import { DEVNET_CHAIN_ID } from '#devnet/accounts.ts'
import { readInteger } from '#devnet/command.ts'
import { command, READ_OPTIONS, SIGN_OPTIONS } from '../command.ts'
import { keyOf, readerOf, urlOf } from '../connect.ts'
import { openKeyFolder } from '../key-folder.ts'
import { showFacts, showJson, showTable, showTime } from '../show.ts'

const DAYS_MAX = 3_650
const DAY_SEC = 86_400

export const keysCreate = command({
  name: 'keys create',
  takes: '',
  about: 'registers an API key by a signature of the wallet, and stores the key in a file',
  more: 'Only its owner can read the file, which is the only copy of the private key. Other commands find the file by themselves.',
  options: {
    name: { value: '<text>', help: 'a name of your choice', default: 'sibyl' },
    days: { value: '<n>', help: 'days until the key expires; by default it never expires' },
    ...SIGN_OPTIONS,
  },
  async run({ values, io }) {
    const url = urlOf(values, io)
    const { chains, serverTime } = await readerOf(values, io).config()
    const onDevnet = chains.some(({ chainId }) => chainId === DEVNET_CHAIN_ID)
    const signer = keyOf(values, io, onDevnet)
    const expires =
      values.days === undefined
        ? {}
        : { expiresAt: serverTime + readInteger('days', values.days, 1, DAYS_MAX) * DAY_SEC }
    const key = await registerApiKey({ url }, signer, { name: values.name, ...expires })
    const folder = openKeyFolder(io)
    const kept = { ...key, url, name: values.name, createdAt: serverTime }
    const file = folder.keep(kept)
    const { privateKey: _, ...shown } = kept
    const facts = { key: key.id, wallet: key.address, file }
    io.out(values.json ? showJson({ ...shown, file }, 2) : showFacts(facts))
    return 0
  },
})

export const keysList = command({
  name: 'keys list',
  takes: '',
  about: 'lists the API keys that are stored on this machine, for all exchanges',
  more: 'Keys on other machines are not shown, because an exchange does not list the keys of a wallet.',
  options: { json: READ_OPTIONS.json },
  async run({ values, io }) {
    const folder = openKeyFolder(io)
    const kept = folder.list().map(({ privateKey: _, ...shown }) => shown)
    if (values.json) io.out(showJson(kept, 2))
    else if (kept.length === 0) io.out(`no keys in ${folder.path}\n`)
    else {
      const rows = kept.map(({ id, url, address, name, createdAt, expiresAt }) => [
        ...[id, url, address, showTime(createdAt)],
        ...[expiresAt === undefined ? 'never' : showTime(expiresAt), name],
      ])
      io.out(showTable(['KEY', 'EXCHANGE', 'WALLET', 'CREATED (UTC)', 'EXPIRES', 'NAME'], rows))
    }
    return 0
  },
})

export const keysRevoke = command({
  name: 'keys revoke',
  takes: '<id>',
  about: 'revokes an API key by a signature of the wallet, even if another machine keeps the key',
  options: SIGN_OPTIONS,
  async run({ values, positionals: [id = ''], io }) {
    const url = urlOf(values, io)
    const { chains } = await readerOf(values, io).config()
    const onDevnet = chains.some(({ chainId }) => chainId === DEVNET_CHAIN_ID)
    await revokeApiKeyByWallet({ url }, id, keyOf(values, io, onDevnet))
    openKeyFolder(io).forget(id)
    io.out(values.json ? showJson({ status: 'revoked', id }, 2) : `${id} is revoked\n`)
    return 0
  },
})

/** The trading account of this page: an account of a wallet, or one of the devnet's demo traders. */

import { computed, effect, signal } from '@preact/signals'
import { type Client, createClient } from '#client/client.ts'
import { type Eip1193Signer, eip1193Signer } from '#client/eip1193-signer.ts'
import { switchChain } from '../wallet/chain-switch.ts'
import { nodeProvider, type Provider, type Wallet, wallets } from '../wallet/provider.ts'
import { chain, config, exchangeUrl, reader } from './exchange.ts'

type Account = {
  readonly address: string
  readonly name: string
  readonly kind: 'wallet' | 'demo'
  readonly provider: Provider
  readonly signer: Eip1193Signer
}

type DemoTrader = { readonly address: string; readonly name: string }

/** Index of the first demo trader among the devnet's well-known accounts. Demo traders have money and shares. */
const DEMO_FIRST = 10
const DEMO_COUNT = 10
/** Index of the devnet account that gives test money to other accounts. */
const FAUCET = 7
const PLACE = 'sibyl account'

export const account = signal<Account | undefined>(undefined)
/** Demo traders of the devnet; empty on any other chain. */
export const demoTraders = signal<readonly DemoTrader[]>([])

/**
 * Address that gives away test money. Undefined on any chain other than the devnet, and while the devnet's Ethereum
 * node is unreachable.
 */
export const faucetAddress = signal<string | undefined>(undefined)

/**
 * Wallet provider that sends requests to the devnet's Ethereum node; undefined on other chains. Every client may use
 * that node.
 */
export const node = computed(() => {
  const url = chain.value?.rpcUrl
  return url === undefined ? undefined : nodeProvider(url)
})

/** Client that reads as the account. If no account is chosen, it reads public data only. For writes use `trading`. */
export const client = computed<Client>(() => {
  const chosen = account.value
  return chosen === undefined ? reader : createClient(optionsOf(chosen))
})

function optionsOf({ signer }: Account) {
  const chainId = chain.value?.chainId
  return { url: exchangeUrl, signer, ...(chainId === undefined ? {} : { chainId }) }
}

const tokenClients = new WeakMap<Account, Promise<Client>>()

/**
 * Returns the client for writes. If the exchange requires a token for writes, the wallet signs once to create an API
 * key. This browser stores the key.
 */
export async function trading(): Promise<Client> {
  const chosen = account.value
  if (chosen === undefined) throw new Error('connect an account first')
  if (config.value?.auth.bearer !== true) return client.value
  let made = tokenClients.get(chosen)
  if (made === undefined) {
    made = openTokenClient(chosen)
    tokenClients.set(chosen, made)
    made.catch(() => tokenClients.delete(chosen))
  }
  return made
}

/** Opens a client with a token. The code is loaded on demand, because only some exchanges require tokens. */
async function openTokenClient(chosen: Account): Promise<Client> {
  const { openApiKey } = await import('#client/api-keys.ts')
  const { withApiKey } = await import('#client/tokens.ts')
  const key = await openApiKey({ url: exchangeUrl }, chosen.signer, localStorage)
  return createClient(withApiKey(optionsOf(chosen), key))
}

export async function connectWallet(wallet: Wallet): Promise<void> {
  const found = await wallet.provider.request({ method: 'eth_requestAccounts' })
  const address = Array.isArray(found) ? found[0] : undefined
  if (typeof address !== 'string')
    throw new Error('the wallet has not given this page access to an account')
  await useWallet(wallet, address)
}

export async function connectDemo({ address, name }: DemoTrader): Promise<void> {
  const provider = node.value
  if (provider === undefined) return
  await choose({ address, name, kind: 'demo', provider }, `demo ${address}`)
}

export function disconnect(): void {
  localStorage.removeItem(PLACE)
  account.value = undefined
}

/** Wallets with a listener for account changes. */
const listening = new WeakSet<Provider>()

async function useWallet(wallet: Wallet, address: string): Promise<void> {
  const { id, name, provider } = wallet
  await choose({ address, name, kind: 'wallet', provider }, `wallet ${id}`)
  if (listening.has(provider)) return
  listening.add(provider)
  provider.on?.('accountsChanged', (addresses: readonly string[]) => {
    if (account.value?.provider !== provider) return
    if (addresses[0] === undefined) disconnect()
    else if (addresses[0] !== account.value.address) void useWallet(wallet, addresses[0])
  })
}

async function choose(chosen: Omit<Account, 'signer'>, kept: string): Promise<void> {
  const { provider, address, kind } = chosen
  const signer = await eip1193Signer(provider, { address })
  account.value = {
    ...chosen,
    signer: {
      ...signer,
      async signTypedData(typed) {
        // A wallet signs for its selected chain, so it must be switched to the exchange's chain first.
        if (kind === 'wallet' && chain.value !== undefined) await switchChain(provider, chain.value)
        return signer.signTypedData(typed)
      },
    },
  }
  localStorage.setItem(PLACE, kept)
}

/** Restores the account of the last visit without a prompt of the wallet. Also loads the devnet's demo traders. */
export function startAccounts(): void {
  const [kind, ...rest] = (localStorage.getItem(PLACE) ?? '').split(' ')
  const name = rest.join(' ')
  effect(() => {
    const provider = node.value
    if (provider === undefined) return
    provider.request({ method: 'eth_accounts' }).then(
      (found) => {
        const addresses = Array.isArray(found) ? found.map(String) : []
        demoTraders.value = addresses
          .map((address, at) => ({ address, name: `Demo trader ${at}` }))
          .slice(DEMO_FIRST, DEMO_FIRST + DEMO_COUNT)
        faucetAddress.value = addresses[FAUCET]
        const kept = demoTraders.value.find(({ address }) => address === name)
        if (kind === 'demo' && kept !== undefined && account.value === undefined)
          void connectDemo(kept)
      },
      // The demo traders stay unknown if the page cannot reach the chain's node, which may run on another machine.
      () => undefined,
    )
  })
  if (kind !== 'wallet') return
  const stop = effect(() => {
    const wallet = wallets.value.find(({ id }) => id === name)
    if (wallet === undefined) return
    queueMicrotask(() => stop())
    wallet.provider.request({ method: 'eth_accounts' }).then(
      (found) => {
        const address = Array.isArray(found) ? found[0] : undefined
        if (typeof address === 'string' && account.value === undefined)
          void useWallet(wallet, address)
      },
      () => undefined,
    )
  })
}

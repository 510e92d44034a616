/** The connection of this page to its exchange: configuration, stream, and connection state. */

import { computed, signal } from '@preact/signals'
import type { Config } from '#client/answers.ts'
import { createClient } from '#client/client.ts'
import type { SibylStream } from '#client/stream-types.ts'
import { setExchangeTime } from './clock.ts'
import { showError, showToast } from './toasts.ts'

type Connection = {
  readonly state: 'connecting' | 'open' | 'lost'
  /** Round-trip time to the exchange in milliseconds. */
  readonly roundTripMs: number | undefined
}

const PING_MS = 10_000
const RETRY_MS = 2_000

/** URL of the exchange. Outside a browser, such as in tests, the URL is a placeholder. */
export const exchangeUrl =
  typeof location === 'undefined' ? 'http://127.0.0.1:8080' : location.origin

/** Reads public data. For signing use `client` of `account.ts`. */
export const reader = createClient({ url: exchangeUrl })

export const config = signal<Config | undefined>(undefined)
/** Id of the chain that the user chose, if the exchange has several chains. */
export const chosenChainId = signal<number | undefined>(undefined)
export const chain = computed(() => {
  const chains = config.value?.chains
  return chains?.find(({ chainId }) => chainId === chosenChainId.value) ?? chains?.[0]
})

export const connection = signal<Connection>({ state: 'connecting', roundTripMs: undefined })

let opened: SibylStream | undefined
const whenBack = new Set<() => void>()

/** Returns the stream of the page. The page has only one, which reconnects and restores its subscriptions by itself. */
export function stream(): SibylStream {
  if (opened === undefined) throw new Error('the connection to the exchange is not open yet')
  return opened
}

/**
 * Calls the listener after each reconnection of the stream. The listener must then read again the data that the stream
 * does not send. Returns a function that removes the listener.
 */
export function onReconnect(listener: () => void): () => void {
  whenBack.add(listener)
  return () => whenBack.delete(listener)
}

export function openExchange(): void {
  const live = reader.stream()
  opened = live
  let isFirst = true
  live.on('open', () => {
    connection.value = { ...connection.value, state: 'open' }
    measure(live)
    if (!isFirst) {
      for (const listener of whenBack) listener()
      void loadConfig()
    }
    isFirst = false
  })
  // The heartbeat updates the exchange's time, because the devnet's time can be moved while the page is open.
  live.on('heartbeat', ({ ts }) => setExchangeTime(ts / 1_000))
  live.on('closed', () => {
    connection.value = { state: 'lost', roundTripMs: undefined }
  })
  setInterval(() => measure(live), PING_MS)
  void loadConfig()
}

function measure(live: SibylStream): void {
  if (connection.value.state !== 'open') return
  live.ping().then(
    (ms) => {
      if (connection.value.state === 'open') connection.value = { state: 'open', roundTripMs: ms }
    },
    // A failed ping is ignored, because the `closed` event reports a lost connection.
    () => undefined,
  )
}

async function loadConfig(): Promise<void> {
  try {
    const loaded = await reader.config({ fresh: true })
    setExchangeTime(loaded.serverTime)
    const before = config.value?.service.version
    if (before !== undefined && before !== loaded.service.version) {
      showToast('news', 'The exchange has a new version. Reload the page to use it.')
    }
    config.value = loaded
  } catch (error) {
    if (config.value === undefined) {
      showError(error)
      setTimeout(() => void loadConfig(), RETRY_MS)
    }
  }
}

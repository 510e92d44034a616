/** All markets of the exchange: read once, read again when one opens or ends. */

import { computed, signal } from '@preact/signals'
import type { Market } from '#client/answers.ts'
import { onReconnect, reader, stream } from './exchange.ts'
import { showError } from './toasts.ts'

/** Several things happen at once when a market resolves; they are one reason to read. */
const SETTLE_MS = 300
const RETRY_MS = 3_000

/** Undefined until they are read. */
export const markets = signal<readonly Market[] | undefined>(undefined)

const byId = computed(() => new Map(markets.value?.map((market) => [market.id, market])))

export function marketOf(marketId: string): Market | undefined {
  return byId.value.get(marketId)
}

let timer: ReturnType<typeof setTimeout> | undefined

function readSoon(ms: number): void {
  clearTimeout(timer)
  timer = setTimeout(() => void readMarkets(), ms)
}

async function readMarkets(): Promise<void> {
  try {
    markets.value = await reader.markets()
  } catch (error) {
    if (markets.value === undefined) showError(error)
    readSoon(RETRY_MS)
  }
}

export function followMarkets(): void {
  void readMarkets()
  stream().market(undefined, () => readSoon(SETTLE_MS))
  onReconnect(() => readSoon(0))
}

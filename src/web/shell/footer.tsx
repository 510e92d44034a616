/** Footer of the page. */

import { chain, config } from '../state/exchange.ts'

export function Footer() {
  const service = config.value?.service
  return (
    <footer class="footer">
      <span>
        {service === undefined ? '' : `${service.name} ${service.version}`}
        {chain.value === undefined ? '' : ` · chain ${chain.value.chainId}`}
      </span>
      <nav aria-label="Documents">
        <a href="/docs">API</a>
        <a href="https://www.tradingview.com/" rel="noreferrer">
          Charts by TradingView
        </a>
      </nav>
    </footer>
  )
}

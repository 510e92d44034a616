/** The frame of the page: the header, the view that the address names, and what is said at the edge. */

import { MarketList } from '../list/market-list.tsx'
import { connection } from '../state/exchange.ts'
import { MARKETS_LINK, route } from '../state/router.ts'
import { Footer } from './footer.tsx'
import { Header } from './header.tsx'
import { lazyView } from './lazy-view.tsx'
import { ToastStack } from './toast-stack.tsx'

/** Each of these is a file of its own that a browser loads when it is first shown. */
const MarketView = lazyView(async () => (await import('../market/market-view.tsx')).MarketView)
const PortfolioView = lazyView(
  async () => (await import('../portfolio/portfolio-view.tsx')).PortfolioView,
)

export function App() {
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Header />
      <Lost />
      <main id="main" tabIndex={-1}>
        <View />
      </main>
      <Footer />
      <ToastStack />
    </>
  )
}

function View() {
  const at = route.value
  switch (at.view) {
    case 'markets':
      return <MarketList />
    case 'market':
      return <MarketView key={at.marketId} marketId={at.marketId} />
    case 'portfolio':
      return <PortfolioView />
    case 'nowhere':
      return (
        <p class="empty">
          There is nothing at this address. <a href={MARKETS_LINK}>All markets</a>
        </p>
      )
  }
}

/** While it is there, nothing on the page is live. */
function Lost() {
  const lost = connection.value.state === 'lost'
  return (
    <div role="status" class="lost" hidden={!lost}>
      {lost ? 'Connection lost. What you see may be old; reconnecting …' : ''}
    </div>
  )
}

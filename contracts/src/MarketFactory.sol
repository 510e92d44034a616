// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";
import {CTHelpers} from "./CTHelpers.sol";
import {IConditionalTokens} from "./interfaces/IConditionalTokens.sol";
import {IOptimisticOracleV3} from "./interfaces/IOptimisticOracleV3.sol";
import {Market} from "./Market.sol";

/// Creates markets. The address and the id of a market can be computed before the market exists, so a quick market can
/// be traded before its creation is mined. An ordinary market's address and id follow from its maker and its terms. A
/// quick market's address and id follow from its asset, start and interval.
///
/// The factory holds no funds. Its operators create quick markets and resolve them by price. Its makers create ordinary
/// markets and have no part in resolving them.
contract MarketFactory is EIP712, Ownable2Step {
    enum Category {
        Defi,
        Protocol,
        Stablecoin,
        General
    }

    struct QuickMarket {
        /// Price at the start, in USD with eight decimals.
        uint64 startPrice;
        uint64 startTime;
        uint64 endTime;
        /// keccak256 of the name of the price source of `startPrice`.
        bytes32 sourceHash;
    }

    uint256 private constant OUTCOMES = 2;
    uint8 private constant YES = 0;
    uint8 private constant NO = 1;
    uint256 private constant QUESTION_BYTES_MAX = 1_024;
    uint256 private constant DESCRIPTION_BYTES_MAX = 8_192;
    uint256 private constant NAME_BYTES_MAX = 32;
    uint256 private constant EVIDENCE_BYTES_MAX = 1_024;
    uint256 private constant EVENT_BYTES_MAX = 8_192;
    bytes32 private constant EVENT_MARKET_TYPEHASH =
        keccak256("EventMarket(address market,bytes32 eventHash)");
    uint32 private constant INTERVAL_MAX = 1 days;
    /// Maximum time before a quick market's start at which the market may be created.
    uint64 private constant QUICK_LEAD = 1 hours;
    /// Time for which a quick market waits for the operator after its end. After that, any
    /// account may propose its outcome at the oracle.
    uint64 public constant QUICK_FALLBACK = 7 days;

    Market public immutable implementation;
    IConditionalTokens public immutable conditionalTokens;

    mapping(address account => bool) public isMaker;
    mapping(address account => bool) public isOperator;
    mapping(address market => bool) public isMarket;
    mapping(address market => QuickMarket) public quickMarkets;
    /// keccak256 of the metadata of the market's event (a group of markets). Zero if the market belongs to no event.
    mapping(address market => bytes32) public eventOf;
    /// Markets in which the exchange also matches a buy of YES with a buy of NO, and a sell of YES
    /// with a sell of NO. The choice is made at creation, and does not affect the market's id.
    mapping(address market => bool) public isComplementary;

    event MakerSet(address indexed account, bool allowed);
    event OperatorSet(address indexed account, bool allowed);
    event MarketCreated(
        bytes32 indexed marketId,
        address indexed market,
        address indexed maker,
        string question,
        string description,
        Category category,
        uint64 expiration
    );
    /// Emitted before `MarketCreated` or `QuickMarketCreated` if the new market is complementary.
    event ComplementaryMarket(bytes32 indexed marketId, address indexed market);
    event QuickMarketCreated(
        bytes32 indexed marketId,
        address indexed market,
        string asset,
        uint64 startTime,
        uint64 endTime,
        uint64 startPrice,
        string source
    );
    /// The market belongs to the group of markets that `metadata` describes. `signer` is the operator who signed this
    /// membership.
    event EventMarketCreated(
        bytes32 indexed marketId,
        address indexed market,
        bytes32 indexed eventHash,
        address signer,
        bytes metadata
    );
    /// The price sources contradict each other: the market is open to the oracle.
    event QuickMarketContested(bytes32 indexed marketId, address indexed market, string evidence);
    event QuickMarketResolved(
        bytes32 indexed marketId,
        address indexed market,
        uint8 winningOutcome,
        uint64 startPrice,
        uint64 endPrice,
        string source
    );

    error NotMaker(address account);
    error NotOperator(address account);
    error ExpirationNotInFuture(uint64 expiration);
    error InvalidText();
    error InvalidInterval();
    error StartTooFarAhead(uint64 startTime);
    error PriceZero();
    error MarketExists(address market);
    error UnknownQuickMarket(address market);
    error StrikeMismatch(uint64 startPrice, uint64 strike);
    error OwnershipNotRenounceable();

    constructor(
        IERC20 collateral,
        IConditionalTokens conditionalTokens_,
        IOptimisticOracleV3 oracle,
        uint64 liveness,
        uint256 bondFloor,
        address owner_,
        address operator_,
        address maker_
    ) EIP712("SibylMarketFactory", "1") Ownable(owner_) {
        conditionalTokens = conditionalTokens_;
        implementation = new Market(collateral, conditionalTokens_, oracle, liveness, bondFloor);
        _setOperator(operator_, true);
        _setMaker(maker_, true);
    }

    function createMarket(
        string calldata question,
        string calldata description,
        Category category,
        uint64 expiration
    ) external returns (address market, bytes32 marketId) {
        return _createMarket(question, description, category, expiration, false);
    }

    /// Like `createMarket`, but creates a complementary market.
    function createComplementaryMarket(
        string calldata question,
        string calldata description,
        Category category,
        uint64 expiration
    ) external returns (address market, bytes32 marketId) {
        return _createMarket(question, description, category, expiration, true);
    }

    /// Creates a market that belongs to an event (a group of markets). An operator signs `EventMarket(market,
    /// keccak256(metadata))` for the predicted address, so no other market can use the signature. The event of a market
    /// never changes.
    function createEventMarket(
        string calldata question,
        string calldata description,
        Category category,
        uint64 expiration,
        bytes calldata metadata,
        bytes calldata signature
    ) external returns (address market, bytes32 marketId) {
        (market, marketId) = _createMarket(question, description, category, expiration, false);
        _joinEvent(market, marketId, metadata, signature);
    }

    /// Like `createEventMarket`, but creates a complementary market.
    function createComplementaryEventMarket(
        string calldata question,
        string calldata description,
        Category category,
        uint64 expiration,
        bytes calldata metadata,
        bytes calldata signature
    ) external returns (address market, bytes32 marketId) {
        (market, marketId) = _createMarket(question, description, category, expiration, true);
        _joinEvent(market, marketId, metadata, signature);
    }

    /// Creates the market on whether the price of `asset` at the end, `interval` seconds after `startTime`, is at or
    /// above `startPrice`. The market's id depends on neither `startPrice` nor `source`.
    function createQuickMarket(
        string calldata asset,
        uint64 startTime,
        uint32 interval,
        uint64 startPrice,
        string calldata source
    ) external returns (address market, bytes32 marketId) {
        return _createQuickMarket(asset, startTime, interval, startPrice, source, false);
    }

    /// Like `createQuickMarket`, but creates a complementary market.
    function createComplementaryQuickMarket(
        string calldata asset,
        uint64 startTime,
        uint32 interval,
        uint64 startPrice,
        string calldata source
    ) external returns (address market, bytes32 marketId) {
        return _createQuickMarket(asset, startTime, interval, startPrice, source, true);
    }

    /// Resolves a quick market from two prices of one source: YES if the end price is at least the start price. The
    /// strike is the start price that was recorded when the market was created. If the strike came from `source`,
    /// `startPrice` must equal it. If the source of the strike cannot decide, another source must give both prices.
    function resolveQuickMarket(
        address market,
        uint64 startPrice,
        uint64 endPrice,
        string calldata source
    ) external {
        _requireOperator();
        QuickMarket memory quick = quickMarkets[market];
        if (quick.startPrice == 0) revert UnknownQuickMarket(market);
        if (!_isName(source)) revert InvalidText();
        if (startPrice == 0 || endPrice == 0) revert PriceZero();
        if (keccak256(bytes(source)) == quick.sourceHash && startPrice != quick.startPrice) {
            revert StrikeMismatch(startPrice, quick.startPrice);
        }
        uint8 winningOutcome = endPrice >= startPrice ? YES : NO;
        emit QuickMarketResolved(
            Market(market).marketId(), market, winningOutcome, startPrice, endPrice, source
        );
        Market(market).resolveQuick(winningOutcome);
    }

    /// Opens a quick market to the oracle at once, without waiting for `QUICK_FALLBACK`, because
    /// the price sources contradict each other. `evidence` describes their prices. This cannot be
    /// undone.
    function contestQuickMarket(address market, string calldata evidence) external {
        _requireOperator();
        if (quickMarkets[market].startPrice == 0) revert UnknownQuickMarket(market);
        if (bytes(evidence).length == 0 || bytes(evidence).length > EVIDENCE_BYTES_MAX) {
            revert InvalidText();
        }
        emit QuickMarketContested(Market(market).marketId(), market, evidence);
        Market(market).openToOracle(evidence);
    }

    function setMaker(address account, bool allowed) external onlyOwner {
        _setMaker(account, allowed);
    }

    function setOperator(address account, bool allowed) external onlyOwner {
        _setOperator(account, allowed);
    }

    /// Always reverts: without an owner, a rogue operator could not be removed.
    function renounceOwnership() public view override onlyOwner {
        revert OwnershipNotRenounceable();
    }

    /// Returns the address and id of the market that `createMarket` makes, whether or not it has
    /// been called.
    function predictMarket(
        address maker,
        string calldata question,
        string calldata description,
        Category category,
        uint64 expiration
    ) external view returns (address market, bytes32 marketId) {
        return _predict(questionIdOf(maker, question, description, category, expiration));
    }

    /// Returns the address and id of the market that `createQuickMarket` makes, whether or not it
    /// has been called.
    function predictQuickMarket(string calldata asset, uint64 startTime, uint32 interval)
        external
        view
        returns (address market, bytes32 marketId)
    {
        return _predict(quickQuestionIdOf(asset, startTime, interval));
    }

    function questionIdOf(
        address maker,
        string calldata question,
        string calldata description,
        Category category,
        uint64 expiration
    ) public pure returns (bytes32) {
        return keccak256(
            abi.encode("market", maker, question, description, category, expiration)
        );
    }

    function quickQuestionIdOf(string calldata asset, uint64 startTime, uint32 interval)
        public
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode("quick", asset, startTime, interval));
    }

    function _createMarket(
        string calldata question,
        string calldata description,
        Category category,
        uint64 expiration,
        bool complementary
    ) private returns (address market, bytes32 marketId) {
        if (!isMaker[msg.sender]) revert NotMaker(msg.sender);
        if (expiration <= block.timestamp) revert ExpirationNotInFuture(expiration);
        if (
            bytes(question).length == 0 || bytes(question).length > QUESTION_BYTES_MAX
                || bytes(description).length > DESCRIPTION_BYTES_MAX
        ) revert InvalidText();

        bytes32 questionId =
            questionIdOf(msg.sender, question, description, category, expiration);
        (market, marketId) = _deploy(
            Market.Terms({
                questionId: questionId,
                maker: msg.sender,
                expiration: expiration,
                proposableFrom: expiration,
                quick: false,
                question: question,
                description: description
            }),
            complementary
        );
        emit MarketCreated(
            marketId, market, msg.sender, question, description, category, expiration
        );
    }

    function _createQuickMarket(
        string calldata asset,
        uint64 startTime,
        uint32 interval,
        uint64 startPrice,
        string calldata source,
        bool complementary
    ) private returns (address market, bytes32 marketId) {
        _requireOperator();
        if (!_isName(asset) || !_isName(source)) revert InvalidText();
        if (interval == 0 || interval > INTERVAL_MAX) revert InvalidInterval();
        if (startTime > block.timestamp + QUICK_LEAD) revert StartTooFarAhead(startTime);
        if (startPrice == 0) revert PriceZero();

        uint64 endTime = startTime + interval;
        (market, marketId) = _deploy(
            Market.Terms({
                questionId: quickQuestionIdOf(asset, startTime, interval),
                maker: msg.sender,
                expiration: endTime,
                proposableFrom: endTime + QUICK_FALLBACK,
                quick: true,
                question: string.concat(
                    "Is the price of ", asset, " at or above its start price at the end?"
                ),
                description: string.concat(
                    "Start price ",
                    Strings.toString(startPrice),
                    " (USD, 8 decimals) at Unix time ",
                    Strings.toString(startTime),
                    ", end at ",
                    Strings.toString(endTime),
                    ", source ",
                    source,
                    "."
                )
            }),
            complementary
        );
        quickMarkets[market] =
            QuickMarket(startPrice, startTime, endTime, keccak256(bytes(source)));
        emit QuickMarketCreated(
            marketId, market, asset, startTime, endTime, startPrice, source
        );
    }

    function _deploy(Market.Terms memory terms, bool complementary)
        private
        returns (address market, bytes32 marketId)
    {
        (market, marketId) = _predict(terms.questionId);
        if (isMarket[market]) revert MarketExists(market);
        isMarket[market] = true;
        if (complementary) {
            isComplementary[market] = true;
            emit ComplementaryMarket(marketId, market);
        }
        Clones.cloneDeterministic(address(implementation), terms.questionId);
        Market(market).initialize(terms);
    }

    function _joinEvent(
        address market,
        bytes32 marketId,
        bytes calldata metadata,
        bytes calldata signature
    ) private {
        if (metadata.length == 0 || metadata.length > EVENT_BYTES_MAX) revert InvalidText();
        bytes32 eventHash = keccak256(metadata);
        bytes32 structHash = keccak256(abi.encode(EVENT_MARKET_TYPEHASH, market, eventHash));
        (address signer,,) = ECDSA.tryRecover(_hashTypedDataV4(structHash), signature);
        if (!isOperator[signer]) revert NotOperator(signer);
        eventOf[market] = eventHash;
        emit EventMarketCreated(marketId, market, eventHash, signer, metadata);
    }

    function _predict(bytes32 questionId)
        private
        view
        returns (address market, bytes32 marketId)
    {
        market = Clones.predictDeterministicAddress(address(implementation), questionId);
        marketId = CTHelpers.getConditionId(market, questionId, OUTCOMES);
    }

    function _requireOperator() private view {
        if (!isOperator[msg.sender]) revert NotOperator(msg.sender);
    }

    function _isName(string calldata text) private pure returns (bool) {
        return bytes(text).length > 0 && bytes(text).length <= NAME_BYTES_MAX;
    }

    function _setMaker(address account, bool allowed) private {
        isMaker[account] = allowed;
        emit MakerSet(account, allowed);
    }

    function _setOperator(address account, bool allowed) private {
        isOperator[account] = allowed;
        emit OperatorSet(account, allowed);
    }
}

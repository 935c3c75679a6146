"""The libraries that the linter knows: what acts on the world, and what reads otherwise the next time.

A pattern is a dotted name; `{a,b}` are alternatives, `*` is any part of a name without a dot, `**` anything. `()` is
the result of a call, so `requests.Session().post` is a method of a session.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of effect: what it does, as a verb, and whether a provider would count a repeat as another one."""

    does: str
    repeats: bool = False


HTTP = Kind("sends an HTTP request", repeats=True)
SETTING = Kind("sends an HTTP request")  # PUT and DELETE: twice is as good as once
PAYMENT = Kind("calls a payment provider", repeats=True)
MAIL = Kind("sends mail", repeats=True)
MESSAGE = Kind("sends a message", repeats=True)
CLOUD = Kind("changes something at a cloud service")
MODEL = Kind("asks a model")
ROWS = Kind("writes to a database")
INSERT = Kind("inserts rows into a database", repeats=True)
PROCESS = Kind("runs a program")
FILE = Kind("writes files")
DECLARED = Kind("calls what the configuration names as an effect")

_CHANGING = "{request,stream,send,open}"
CLIENT = "{requests.Session(),httpx.Client(),httpx.AsyncClient(),aiohttp.ClientSession()}"

EFFECTS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (
        HTTP,
        (
            "{requests,httpx}.{post,patch,request,stream}",
            f"{CLIENT}.{{post,patch}}",
            f"{CLIENT}.{_CHANGING}",
            "aiohttp.request",
            "urllib.request.urlopen",
            "urllib.request.{build_opener,OpenerDirector}().open",
            "urllib3.{request,PoolManager().request,PoolManager().urlopen}",
            "http.client.{HTTPConnection,HTTPSConnection}().{request,putrequest}",
        ),
    ),
    (SETTING, ("{requests,httpx}.{put,delete}", f"{CLIENT}.{{put,delete}}")),
    (
        PAYMENT,
        (
            "stripe.**.{create,confirm,capture,cancel,modify,update,delete,pay,reverse,refund,finalize_invoice,send_invoice}*",
            "stripe.**.{void_invoice,reject,release,attach,detach,upload}*",
            "{paypalrestsdk,braintree,adyen,Adyen,square,mollie}.**.{create,sale,refund,capture,void,execute,submit_*,payments}",
        ),
    ),
    (
        MAIL,
        (
            "smtplib.{SMTP,SMTP_SSL,LMTP}().{sendmail,send_message}",
            "aiosmtplib.{send,SMTP().sendmail,SMTP().send_message}",
            "sendgrid.SendGridAPIClient().{send,client.mail.send.post}",
            "{postmarker,mailjet_rest,resend}.**.{send,create}",
            "django.core.mail.{send_mail,send_mass_mail,mail_admins,mail_managers,EmailMessage().send}",
        ),
    ),
    (
        MESSAGE,
        (
            "twilio.rest.Client().**.{create,update,delete}",
            "slack_sdk.**.{chat_*,files_upload*,conversations_*,send}",
            "{slack_sdk.web.async_client,slack_sdk.web}.**.chat_*",
            "telegram.Bot().send_*",
            "pika.**.basic_publish",
            "kafka.KafkaProducer().send",
            "aiokafka.AIOKafkaProducer().{send,send_and_wait}",
            "confluent_kafka.Producer().produce",
            "google.cloud.pubsub_v1.PublisherClient().publish",
            "{redis,redis.asyncio}.{Redis,StrictRedis,from_url}().{publish,lpush,rpush,xadd,incr,incrby,decr,decrby,append}",
            "celery.**.{send_task,delay,apply_async}",
            "socket.{socket,create_connection}().{send,sendall,sendto}",
        ),
    ),
    (
        CLOUD,
        (
            "boto3.**.{put_*,delete_*,copy*,upload_*,update_*,tag_*,untag_*,modify_*,terminate_*,stop_*,set_*}",
            "boto3.**.{delete,put,upload_file,upload_fileobj}",
            "google.cloud.storage.**.{upload_from_*,delete}",
            "{redis,redis.asyncio}.{Redis,StrictRedis,from_url}().{set,setex,setnx,hset,delete,sadd,zadd,expire}",
            "{pymongo,motor}.**.{insert_*,update_*,delete_*,replace_*,bulk_write,find_one_and_*}",
            "paramiko.SSHClient().exec_command",
            "ftplib.{FTP,FTP_TLS}().{storbinary,storlines,delete,rename}",
        ),
    ),
    (MESSAGE, ("boto3.**.{send_*,publish*,invoke*,start_*,run_*,create_*,execute_*,send_messages,create}",)),
    (
        MODEL,
        (
            "openai.**.{create,parse,stream,generate,edit}",
            "anthropic.**.{create,stream,parse}",
            "{google.generativeai,google.genai}.**.{generate_content*,send_message*}",
            "{mistralai,cohere,ollama,groq,litellm}.**",
        ),
    ),
    (
        ROWS,
        (
            "sqlalchemy.orm.{Session,sessionmaker,scoped_session}().{add,add_all,delete,merge,commit,flush}",
            "sqlalchemy.orm.{sessionmaker,scoped_session}()().{add,add_all,delete,merge,commit,flush}",
            "sqlalchemy.ext.asyncio.{AsyncSession,async_sessionmaker}().{add,add_all,delete,merge,commit,flush}",
            "sqlalchemy.ext.asyncio.async_sessionmaker()().{add,add_all,delete,merge,commit,flush}",
        ),
    ),
    (
        PROCESS,
        (
            "subprocess.{run,call,check_call,check_output,Popen,getoutput,getstatusoutput}",
            "os.{system,popen,exec*,spawn*,posix_spawn*,kill,killpg}",
            "asyncio.{create_subprocess_exec,create_subprocess_shell}",
            "multiprocessing.Process",
        ),
    ),
    (
        FILE,
        (
            "os.{remove,unlink,rename,renames,replace,rmdir,removedirs,mkdir,makedirs,truncate,symlink,link,chmod,chown}",
            "shutil.{copy,copy2,copyfile,copytree,move,rmtree,make_archive,unpack_archive}",
            "pathlib.{Path,PosixPath}().{write_text,write_bytes,unlink,rename,replace,mkdir,rmdir,touch,symlink_to}",
            "pathlib.{Path,PosixPath}.{cwd,home}().{write_text,write_bytes,unlink,mkdir,rmdir,touch}",
        ),
    ),
)
READS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "the clock",
        (
            "time.{time,time_ns,monotonic,monotonic_ns,clock_gettime,clock_gettime_ns}",
            "datetime.datetime.{now,utcnow,today}",
            "datetime.date.today",
            "pendulum.{now,today,tomorrow,yesterday}",
            "arrow.{now,utcnow}",
            "django.utils.timezone.{now,localtime,localdate}",
            "pandas.Timestamp.{now,today,utcnow}",
        ),
    ),
    (
        "random numbers",
        (
            "random.{random,randint,randrange,choice,choices,sample,shuffle,uniform,gauss,normalvariate,getrandbits}",
            "random.{randbytes,betavariate,expovariate,triangular,lognormvariate,vonmisesvariate,paretovariate}",
            "random.{Random,SystemRandom}().*",
            "numpy.random.{rand*,choice,normal,uniform,shuffle,permutation,default_rng().*}",
            "os.{urandom,getrandom}",
            "secrets.*",
        ),
    ),
    ("a new UUID", ("uuid.{uuid1,uuid4,uuid6,uuid7}",)),
    ("the environment", ("os.{getenv,environ,environb}", "os.{environ,environb}.{get,items,keys,values,copy}")),
    (
        "what belongs to this process",
        (
            "os.{getpid,getppid,getcwd,getlogin,uname}",
            "socket.{gethostname,getfqdn}",
            "platform.{node,platform,machine}",
            "threading.{get_ident,get_native_id}",
            "getpass.getuser",
            "builtins.{id,hash}",
        ),
    ),
    (
        "the network",
        (
            "{requests,httpx}.{get,head,options}",
            f"{CLIENT}.{{get,head,options}}",
            "stripe.**.{retrieve,list,search}*",
            "boto3.{client,resource,Session().client,Session().resource}().{get_*,list_*,describe_*,head_*,query,scan}",
        ),
    ),
)
